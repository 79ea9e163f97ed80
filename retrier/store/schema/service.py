"""Tables about the service itself: lease, imports, copies to send, event log, ledger, breakers."""

from sqlalchemy import (
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
    Text,
    false,
    text,
)

from retrier.domain.breakers import BreakerState, Per
from retrier.domain.views import ViewList
from retrier.store.schema.types import Digest, Id, Json, Number, UtcTime, metadata, one_of

processor_lease = Table(
    "processor_lease",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("epoch", Number, nullable=False),
    Column("session_id", Id),
    Column("host", Text),
    Column("pid", Integer),
    Column("process_started", Text),
    Column("acquired_at", UtcTime),
    Column("renewed_at", UtcTime),
    Column("expires_at", UtcTime),
    CheckConstraint("id = 1", name="one_processor"),
)

# An act on many messages locks the row of the lease only against a takeover (FOR KEY SHARE): that
# lock conflicts with updates of the columns of a unique index, and lets renewals pass.
Index("ix_processor_lease_epoch", processor_lease.c.epoch, unique=True)

failed_imports = Table(
    "failed_imports",
    metadata,
    Column("import_id", Id, primary_key=True),
    Column("error_queue", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("raw_properties", LargeBinary, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("fingerprint", Digest, nullable=False),
    Column("received_at", UtcTime, nullable=False),
    Column("redelivered", Boolean, nullable=False, server_default=false()),
    # The number, of the counter of failure numbers, under which it was kept.
    Column("stored_seq", Number, nullable=False),
)

Index("ix_failed_imports_redelivery", failed_imports.c.fingerprint)
# Lists and bulk retries go by it. SQLite would walk through every body to find it in the rows.
Index("ix_failed_imports_received", failed_imports.c.received_at)

failed_import_sends = Table(
    "failed_import_sends",
    metadata,
    Column("import_id", ForeignKey("failed_imports.import_id"), primary_key=True),
    Column("send_id", Id, nullable=False),
    Column("sending_to", String(255), nullable=False),
    Column("sending_since", UtcTime, nullable=False),
    Column("requested_by", Text, nullable=False),
)
"""Failed imports that are being sent to a queue: in doubt until the broker's answer is recorded.

The key allows one at a time. A row names an import that is there: to delete one that may have been
sent, its row has to go first.
"""

outgoing = Table(
    "outgoing",
    metadata,
    # The order in which they are sent.
    Column("outgoing_id", Number, primary_key=True, autoincrement=True),
    # No foreign keys, as in `processing_attempts`: the transaction that adds a row has just added
    # the attempt. `retrier verify` looks for strays.
    Column("number", Number, nullable=False),
    Column("attempt_id", Number, nullable=False),
    Column("queue", Text, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Column("not_before", UtcTime),
    Column("reason", Text),
    # A notice that a message is dead: what it says. NULL: a copy.
    Column("notice", Json),
    CheckConstraint("(not_before IS NULL) = (reason IS NULL)", name="put_off_says_why"),
)
# Whether anything of a message is still to be sent: who deletes messages asks for it.
Index("ix_outgoing_message", outgoing.c.number)

event_log = Table(
    "event_log",
    metadata,
    Column("event_id", Number, primary_key=True, autoincrement=True),
    Column("at", UtcTime, nullable=False),
    Column("kind", String(64), nullable=False),
    Column("who", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("unique_message_id", String(36)),
    Column("operation_id", Id),
    Column("batch_id", Id),
    Column("details", Json),
)
Index("ix_event_log_sweep", event_log.c.at)
Index("ix_event_log_message", event_log.c.unique_message_id)
Index("ix_event_log_operation", event_log.c.operation_id)

ledger = Table(
    "ledger",
    metadata,
    Column("instance", Text, primary_key=True),
    Column("entry", String(32), primary_key=True),
    Column("count", Number, nullable=False),
)

policy_sets = Table(
    "policy_sets",
    metadata,
    Column("session_id", Id, primary_key=True),
    Column("instance", Text, nullable=False),
    Column("host", Text, nullable=False),
    Column("pid", Integer, nullable=False),
    Column("set_hash", String(64), nullable=False),
    Column("file_time", UtcTime),
    Column("loaded_at", UtcTime, nullable=False),
    Column("problems", Json, nullable=False),
    Column("seen_at", UtcTime, nullable=False),
)
"""Which set of policies each process judges by, told by the process itself again and again.

`problems` are those of a newer file that was not taken over; the set before it stays in force.
"""

processes = Table(
    "processes",
    metadata,
    Column("session_id", Id, primary_key=True),
    Column("instance", Text, nullable=False),
    Column("host", Text, nullable=False),
    Column("pid", Integer, nullable=False),
    Column("roles", Json, nullable=False),
    Column("version", Text, nullable=False),
    # Empty: it has no policies.
    Column("set_hash", String(64), nullable=False),
    Column("error_queues", Json, nullable=False),
    Column("seen_at", UtcTime, nullable=False),
)
"""The processes that run, each written by itself: they should differ in nothing but their roles."""

recovery = Table(
    "recovery",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    # The time of the backup that was restored, as a person says.
    Column("since", UtcTime, nullable=False),
    Column("begun_at", UtcTime, nullable=False),
    Column("begun_by", Text, nullable=False),
    CheckConstraint("id = 1", name="one_recovery"),
)
"""While it has its row nothing is presumed, by no process."""

installation = Table(
    "installation",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("installation_id", Id, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    CheckConstraint("id = 1", name="one_installation"),
)

# How far each process has read each error queue. Written while a canary waits for its verdict, and
# when a process starts or stops: at other times nobody asks.
error_queue_reads = Table(
    "error_queue_reads",
    metadata,
    Column("session_id", Id, primary_key=True),
    Column("queue", Text, primary_key=True),
    Column("host", Text, nullable=False),
    Column("pid", Integer, nullable=False),
    Column("process_started", Text, nullable=False),
    Column("seen_at", UtcTime, nullable=False),
    Column("level_at", UtcTime),
    Column("ready", Integer),
    Column("stopped", Boolean, nullable=False, server_default=false()),
)


HANDS = (BreakerState.OPEN, BreakerState.CLOSED)
"""What a person may make of a breaker."""

breakers = Table(
    "breakers",
    metadata,
    Column("breaker_id", Number, primary_key=True, autoincrement=True),
    Column("breaker_key", Text, nullable=False, unique=True),
    Column("per", String(16), nullable=False),
    Column("name", Text, nullable=False),
    Column("rule", Text),
    Column("grain_ms", Number),
    Column("last_outcomes", Integer),
    Column("state", String(16), nullable=False),
    Column("changed_at", UtcTime, nullable=False),
    Column("opened_at", UtcTime),
    Column("due_at", UtcTime),
    Column("cooldown_ms", Number, nullable=False, server_default=text("0")),
    Column("sent", Integer, nullable=False, server_default=text("0")),
    Column("failed", Integer, nullable=False, server_default=text("0")),
    Column("confirms", Boolean, nullable=False, server_default=false()),
    Column("trial_number", Number),
    Column("trial_retry_id", Id),
    Column("hand", String(16)),
    Column("hand_until", UtcTime),
    Column("hand_who", Text),
    Column("hand_why", Text),
    one_of("per", Per),
    one_of("state", BreakerState),
    one_of("hand", HANDS),
    CheckConstraint("(state = 'closed') = (opened_at IS NULL)", name="open_since"),
    CheckConstraint("state <> 'open' OR due_at IS NOT NULL", name="open_until_it_is_tried"),
    CheckConstraint("(trial_number IS NULL) = (trial_retry_id IS NULL)", name="one_trial"),
    CheckConstraint("trial_number IS NULL OR state = 'half_open'", name="tried_while_half_open"),
    CheckConstraint("(hand IS NULL) = (hand_until IS NULL)", name="by_hand_until"),
    # Claims name breakers without a foreign key: the id of a deleted one must not come again.
    sqlite_autoincrement=True,
)

breaker_counts = Table(
    "breaker_counts",
    metadata,
    Column("breaker_id", Number, primary_key=True, autoincrement=False),
    # Part of the time in which the counted retries were sent: never older than the last change.
    Column("since", UtcTime, primary_key=True),
    Column("counted_by", Id, primary_key=True),
    Column("sent", Integer, nullable=False),
    Column("returned", Integer, nullable=False),
    Column("came_back", Integer, nullable=False),
    Column("confirmed", Integer, nullable=False),
    # A letter for each outcome, in the order of arrival: c confirmed, f failed.
    Column("outcomes", Text, nullable=False),
    CheckConstraint(
        "sent >= 0 AND returned >= 0 AND came_back >= 0 AND confirmed >= 0", name="counted_up"
    ),
)
"""What became of retries. Each counter writes rows of its own: none waits for another."""

saved_views = Table(
    "saved_views",
    metadata,
    Column("name", String(255), primary_key=True),
    Column("page", String(16), nullable=False),
    # The conditions, as they stand in the address of the list.
    Column("query", Text, nullable=False),
    Column("who", Text, nullable=False),
    Column("saved_at", UtcTime, nullable=False),
    # Another one whenever it is replaced: who replaces it names the one that is there.
    Column("version", Number, nullable=False),
    one_of("page", ViewList),
)
