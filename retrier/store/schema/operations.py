"""Tables about retries and other acts on many: operations, batches, claims, redirects."""

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

from retrier.domain.archive_operation import Act, ArchiveOperationState
from retrier.domain.edits import EditState
from retrier.domain.failed_message import RetryEnd
from retrier.domain.retry_batch import RetryBatchStatus
from retrier.domain.retry_operation import CanaryState, RetryOperationState, RetryType
from retrier.store.schema.types import Digest, Id, Json, Number, UtcTime, metadata, one_of

_CHECKED_COLUMNS = ("confirmed", "came_back", "presumed", "resolved", "released")
OUTCOME_COLUMNS = (*_CHECKED_COLUMNS, "edited")
"""The outcomes that are counted for each operation. SQLite cannot add a constraint for a later one."""

retry_operations = Table(
    "retry_operations",
    metadata,
    Column("operation_id", Id, primary_key=True),
    Column("retry_type", String(32), nullable=False),
    Column("selection", Json, nullable=False),
    Column("cut_off", Number, nullable=False),
    Column("floor", Number, nullable=False),
    Column("originator", Text, nullable=False),
    Column("requested_by", Text, nullable=False),
    Column("why", Text),
    Column("priority", Integer, nullable=False),
    Column("state", String(16), nullable=False),
    # 64 bits: the standing operation is never completed, and counts for years.
    Column("total", Number, nullable=False),
    Column("forwarded", Number, nullable=False),
    Column("skipped", Number, nullable=False),
    Column("failed", Number, nullable=False),
    Column("batches", Number, nullable=False),
    Column("left_out", Integer, nullable=False, server_default=text("0")),
    Column("message_limit", Integer),
    Column("destination", Text),
    Column("rate", Integer),
    Column("cancel_asked", Boolean, nullable=False, server_default=false()),
    Column("acknowledged_at", UtcTime),
    Column("reason", Text),
    Column("not_before", UtcTime),
    Column("last_cut", UtcTime),
    Column("idempotency_key", String(255), unique=True),
    Column("created_at", UtcTime, nullable=False),
    Column("started_at", UtcTime),
    Column("completed_at", UtcTime),
    Column("modified_at", UtcTime, nullable=False),
    Column("next_cut", UtcTime),
    Column("passed_over", Boolean, nullable=False, server_default=false()),
    Column("request_hash", Digest),
    Column("dead_left_out", Integer, nullable=False, server_default=text("0")),
    Column("look_again_at", UtcTime),
    # The delay that was asked for; NULL: none, or a time.
    Column("delay_ms", Number),
    # Patterns of headers that its retries go without; NULL: none.
    Column("drop_headers", Json),
    # What is changed of each message that it sends, as JSON; NULL: nothing. A text, and no JSON of
    # the database, which would write numbers anew.
    Column("patch", Text),
    one_of("retry_type", RetryType),
    one_of("state", RetryOperationState),
    CheckConstraint(
        "(state IN ('completed', 'cancelled')) = (completed_at IS NOT NULL)",
        name="completed_has_its_time",
    ),
)
Index(
    "ix_retry_operations_next",
    retry_operations.c.state,
    retry_operations.c.priority,
    retry_operations.c.last_cut,
)
Index("ix_retry_operations_retention", retry_operations.c.completed_at)

retry_operation_messages = Table(
    "retry_operation_messages",
    metadata,
    Column(
        "operation_id",
        ForeignKey("retry_operations.operation_id", ondelete="CASCADE"),
        primary_key=True,
    ),
    Column("position", Integer, primary_key=True),
    Column("unique_message_id", Text, nullable=False),
    Column("number", Number),
    Column("skipped_because", Text),
)
"""The ids of a request that named messages by id; other selections have no rows here.

`number` is that of the message which had the id at the time of the request.
"""

retry_operation_canaries = Table(
    "retry_operation_canaries",
    metadata,
    Column(
        "operation_id",
        ForeignKey("retry_operations.operation_id", ondelete="CASCADE"),
        primary_key=True,
    ),
    Column("size", Integer, nullable=False),
    Column("wait_ms", Number, nullable=False),
    Column("most_back", Integer, nullable=False),
    Column("state", String(16), nullable=False),
    # Pairs of number and retry id: by these it is looked up which of them came back.
    Column("retries", Json, nullable=False),
    # Counted when it is judged: later the operation's own counts say nothing about the canary.
    Column("came_back", Integer),
    Column("waited_until", UtcTime),
    one_of("state", CanaryState),
    CheckConstraint("size >= 1", name="sends_something"),
    CheckConstraint("wait_ms >= 0", name="waits_forward"),
    CheckConstraint("most_back >= 0", name="counts_what_came_back"),
)
"""Operations that send a few messages first and wait for what becomes of them."""

retry_operation_outcomes = Table(
    "retry_operation_outcomes",
    metadata,
    Column(
        "operation_id",
        ForeignKey("retry_operations.operation_id", ondelete="CASCADE"),
        primary_key=True,
    ),
    # A table of its own: ingestion counts here while the processor counts in the operation's row,
    # and neither waits for the other.
    *(Column(name, Number, nullable=False, server_default=text("0")) for name in _CHECKED_COLUMNS),
    # Retries that had ended, and whose messages were deleted, before outcomes were counted here.
    Column("unknown", Number, nullable=False, server_default=text("0")),
    # An edited version went out in place of the message: what becomes of it is told by its own row.
    Column("edited", Number, nullable=False, server_default=text("0")),
    *(CheckConstraint(f"{name} >= 0", name=f"counts_{name}") for name in _CHECKED_COLUMNS),
)
"""How many of an operation's retries ended in which way; kept when the messages are deleted."""

retry_batches = Table(
    "retry_batches",
    metadata,
    Column("batch_id", Id, primary_key=True),
    Column("operation_id", ForeignKey("retry_operations.operation_id"), nullable=False),
    Column("session_id", Id, nullable=False),
    Column("status", String(16), nullable=False),
    Column("staging_id", Id),
    Column("initial_size", Integer, nullable=False),
    Column("message_count", Integer),
    Column("stage_attempts", Integer, nullable=False),
    Column("not_before", UtcTime),
    Column("reason", Text),
    Column("created_at", UtcTime, nullable=False),
    Column("modified_at", UtcTime, nullable=False),
    one_of("status", RetryBatchStatus),
    CheckConstraint("initial_size <= 1000", name="at_most_1000"),
    CheckConstraint(
        "(status = 'forwarding') = (staging_id IS NOT NULL)", name="staging_id_while_forwarding"
    ),
    CheckConstraint(
        "(status = 'forwarding') = (message_count IS NOT NULL)", name="count_frozen_with_staging_id"
    ),
)
Index("ix_retry_batches_operation", retry_batches.c.operation_id, unique=True)
"""Unique: an operation has at most one batch at a time (decision 0017)."""

staging_ids = Table(
    "staging_ids",
    metadata,
    Column("staging_id", Id, primary_key=True),
    Column("made_at", UtcTime, nullable=False),
)
Index("ix_staging_ids_sweep", staging_ids.c.made_at)

retry_batch_now_forwarding = Table(
    "retry_batch_now_forwarding",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("batch_id", ForeignKey("retry_batches.batch_id"), nullable=False),
    CheckConstraint("id = 1", name="at_most_one"),
)

failed_message_retries = Table(
    "failed_message_retries",
    metadata,
    # No foreign keys: looking the message up again takes longer than writing the claim, and
    # claims outlive their batch (decision 0015). `retrier verify` looks for strays.
    Column("number", Number, primary_key=True, autoincrement=False),
    Column("failure_seq", Number, nullable=False),
    Column("retry_id", Id, nullable=False),
    Column("batch_id", Id, nullable=False),
    Column("operation_id", Id, nullable=False),
    Column("sending_since", UtcTime),
    Column("forwarded_at", UtcTime),
    # The breaker that counts what becomes of the retry; NULL if none does.
    Column("breaker_id", Number),
    # The number, of the counter of failure numbers, under which it was
    # recorded as forwarded; and the queue it goes to, NULL if that is the one of the failure.
    Column("sent_seq", Number),
    Column("sent_to", Text),
    # The edit that it sends instead of the message; NULL if it sends the message.
    Column("edit_id", Id),
    CheckConstraint(
        "forwarded_at IS NULL OR sending_since IS NOT NULL", name="stamped_before_recorded"
    ),
    # Each is updated twice, stamped and recorded: with room in its page, no index is written.
    postgresql_with={"fillfactor": 50},
)
Index("ix_failed_message_retries_batch", failed_message_retries.c.batch_id)

ended_retries = Table(
    "ended_retries",
    metadata,
    # No foreign keys, for the same reasons.
    Column("number", Number, primary_key=True, autoincrement=False),
    Column("retry_id", Id, primary_key=True),
    Column("operation_id", Id, nullable=False),
    Column("sending_since", UtcTime, nullable=False),
    Column("forwarded_at", UtcTime),
    Column("ended_at", UtcTime, nullable=False),
    Column("outcome", String(16), nullable=False),
    one_of("outcome", RetryEnd),
)
"""What is kept of a stamped claim when it ends, for the history of its message."""
Index(
    "ix_ended_retries_operation",
    ended_retries.c.operation_id,
    ended_retries.c.outcome,
    ended_retries.c.number,
)

message_edits = Table(
    "message_edits",
    metadata,
    # No foreign keys: the message is locked while an edit is added, and takes its edits with it.
    Column("edit_id", Id, primary_key=True),
    Column("number", Number, nullable=False),
    # The failure that was edited: what the edit is compared with.
    Column("attempt_id", Number, nullable=False),
    Column("operation_id", Id, nullable=False),
    Column("retry_id", Id, nullable=False),
    Column("asked_at", UtcTime, nullable=False),
    Column("ended_at", UtcTime),
    Column("state", String(16), nullable=False),
    Column("who", Text, nullable=False),
    Column("why", Text),
    Column("reason", Text),
    # The id that the edited message has instead of the one of its sender.
    Column("message_id", Text, nullable=False),
    Column("body_hash", Digest, nullable=False),
    Column("raw_properties", LargeBinary, nullable=False),
    Column("body", LargeBinary, nullable=False),
    one_of("state", EditState),
    CheckConstraint("(state = 'waiting') = (ended_at IS NULL)", name="ended_has_time"),
)
"""What a person wants to be sent instead of a failed message, and what became of it."""
_waiting = text("state = 'waiting'")
# One edit at a time: the first one wins.
Index(
    "ix_message_edits_waiting",
    message_edits.c.number,
    unique=True,
    postgresql_where=_waiting,
    sqlite_where=_waiting,
)
Index("ix_message_edits_message", message_edits.c.number)
# What came back names the retry that sent it.
Index("ix_message_edits_retry", message_edits.c.retry_id, unique=True)

message_redirects = Table(
    "message_redirects",
    metadata,
    Column("from_queue", String(255), primary_key=True),
    Column("to_queue", String(255), nullable=False),
    Column("modified_at", UtcTime, nullable=False),
)


ACTS = (Act.ARCHIVE, Act.UNARCHIVE, Act.RESOLVE)
"""What can be done to many messages as one operation."""

archive_operations = Table(
    "archive_operations",
    metadata,
    Column("operation_id", Id, primary_key=True),
    Column("act", String(16), nullable=False),
    Column("selection", Json, nullable=False),
    Column("cut_off", Number, nullable=False),
    Column("cursor", Number, nullable=False),
    Column("originator", Text, nullable=False),
    Column("requested_by", Text, nullable=False),
    Column("why", Text),
    Column("state", String(16), nullable=False),
    Column("total", Integer, nullable=False),
    Column("done", Integer, nullable=False),
    Column("skipped", Integer, nullable=False),
    Column("skipped_because", Json, nullable=False),
    Column("undo_of", Id),
    Column("reason", Text),
    Column("idempotency_key", String(255), unique=True),
    Column("request_hash", Digest),
    Column("created_at", UtcTime, nullable=False),
    Column("started_at", UtcTime),
    Column("completed_at", UtcTime),
    Column("acknowledged_at", UtcTime),
    Column("modified_at", UtcTime, nullable=False),
    one_of("act", ACTS),
    one_of("state", ArchiveOperationState),
    CheckConstraint(
        "(state = 'completed') = (completed_at IS NOT NULL)", name="completed_has_its_time"
    ),
)
# What is to be worked off, the oldest first.
Index("ix_archive_operations_next", archive_operations.c.state, archive_operations.c.created_at)
Index("ix_archive_operations_retention", archive_operations.c.completed_at)

archive_operation_messages = Table(
    "archive_operation_messages",
    metadata,
    Column(
        "operation_id",
        ForeignKey("archive_operations.operation_id", ondelete="CASCADE"),
        primary_key=True,
    ),
    Column("position", Integer, primary_key=True),
    Column("unique_message_id", Text, nullable=False),
    Column("refused_because", Text),
)
"""The ids of a request that named messages by id; other selections have no rows here."""
