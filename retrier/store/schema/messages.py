"""Tables about failed messages: the messages, their attempts, and the causes of their failures."""

from sqlalchemy import (
    Boolean,
    CheckConstraint,
    Column,
    ColumnElement,
    Connection,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    Sequence,
    String,
    Table,
    Text,
    event,
    false,
    literal_column,
    text,
)

from retrier.domain.failed_message import Disposition, FailedMessageStatus, Resolution
from retrier.domain.streams import NO_POSITION, StreamRule
from retrier.store.schema.types import (
    ByCodePoint,
    Digest,
    Id,
    Number,
    UtcTime,
    Words,
    metadata,
    one_of,
)

failure_seq = Sequence("failure_seq", metadata=metadata)
"""Numbers messages in the order in which they became unresolved (PostgreSQL)."""

message_number = Sequence("message_number", metadata=metadata)
"""Numbers messages in the order in which their first failure was stored (PostgreSQL)."""

attempt_number = Sequence("attempt_number", metadata=metadata)
"""Numbers attempts (PostgreSQL)."""

counters = Table(
    "counters",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("value", Number, nullable=False),
)
"""SQLite has no sequences: these rows replace them. A number is never given out again."""

failure_groups = Table(
    "failure_groups",
    metadata,
    Column("group_id", Id, primary_key=True),
    Column("classifier", String(64), nullable=False),
    Column("title", Text, nullable=False),
)

causes = Table(
    "causes",
    metadata,
    Column("cause_id", Number, primary_key=True, autoincrement=True),
    Column("fingerprint", Digest, nullable=False, unique=True),
    Column("queue", Text, nullable=False),
    Column("destination", Text, nullable=False),
    Column("endpoint", Text),
    Column("message_type", Text),
    Column("exception_type", Text),
    Column("failure_reason", Text),
    Column("exception_message", Text),
    Column("created_at", UtcTime, nullable=False),
    # Attempts refer to causes without a foreign key: the id of a deleted one must not come again.
    sqlite_autoincrement=True,
)
# Lists and cuts by queue, endpoint, type or group find the causes first, then their messages.
Index("ix_causes_queue", causes.c.queue)
Index("ix_causes_endpoint", causes.c.endpoint)

cause_groups = Table(
    "cause_groups",
    metadata,
    Column("cause_id", ForeignKey("causes.cause_id", ondelete="CASCADE"), primary_key=True),
    Column("group_id", ForeignKey("failure_groups.group_id"), primary_key=True),
)
Index("ix_cause_groups_group", cause_groups.c.group_id)

group_comments = Table(
    "group_comments",
    metadata,
    Column("group_id", ForeignKey("failure_groups.group_id"), primary_key=True),
    Column("comment", Text, nullable=False),
    Column("who", Text, nullable=False),
    Column("written_at", UtcTime, nullable=False),
)

message_texts = Table(
    "message_texts",
    metadata,
    Column("text_id", Number, primary_key=True, autoincrement=True),
    Column("digest", Digest, nullable=False, unique=True),
    Column("folded", ByCodePoint, nullable=False),
    # Messages refer to texts without a foreign key: the id of a deleted one must not come again.
    sqlite_autoincrement=True,
)

# Columns of a fixed size come first: PostgreSQL finds them without walking the row, and a list
# that is sorted by one of them may read a million rows.
failed_messages = Table(
    "failed_messages",
    metadata,
    Column("number", Number, primary_key=True, autoincrement=False),
    Column("failure_seq", Number, nullable=False),
    Column("cause_id", ForeignKey("causes.cause_id"), nullable=False),
    Column("attempt_id", Number, nullable=False),
    Column("first_failure", UtcTime, nullable=False),
    Column("last_failure", UtcTime, nullable=False),
    Column("last_modified", UtcTime, nullable=False),
    Column("unique_message_id", Id, nullable=False, unique=True),
    Column("attempts", Integer, nullable=False),
    Column("failure_count", Integer, nullable=False),
    Column("body_size", Integer, nullable=False),
    Column("properties_size", Integer, nullable=False),
    Column("last_failure_known", Boolean, nullable=False),
    Column("released", Boolean, nullable=False, server_default=false()),
    Column("edited", Boolean, nullable=False, server_default=false()),
    Column("status", String(16), nullable=False),
    Column("disposition", String(16), nullable=False, server_default="manual"),
    Column("time_sent", UtcTime),
    Column("message_id", ByCodePoint),
    Column("last_retry_id", Id),
    Column("resolution", String(16)),
    Column("resolved_at", UtcTime),
    Column("disposition_reason", Text),
    Column("reason", Text),
    Column("policy", Text),
    Column("retry_at", UtcTime),
    Column("stream_id", Text),
    Column("stream_rule", String(16)),
    Column("maybe_copy_of", Id),
    Column("edit_of", Id),
    Column("archive_operation_id", Id),
    Column("stream_queue", Text),
    Column("derived_from", Id),
    Column("stream_position", String(30), nullable=False, server_default=NO_POSITION),
    Column("stream_position_unread", Text),
    # Of the newest failure, and no part of its cause: a machine more would
    # double the groups.
    Column("host", Text),
    Column("process", Text),
    Column("node", Text),
    Column("last_word", String(16)),
    Column("archived_disposition", String(16)),
    Column("archived_reason", Text),
    Column("archived_policy", Text),
    Column("archived_retry_at", UtcTime),
    # No foreign key: each would cost a look-up for each failure.
    Column("text_id", Number),
    # The number, of the counter of failure numbers, under which it was
    # archived, or an attempt was counted that did not make it unresolved: a plan asks for it.
    Column("changed_seq", Number),
    one_of("status", FailedMessageStatus),
    one_of("disposition", Disposition),
    one_of("resolution", Resolution),
    one_of("stream_rule", StreamRule),
    CheckConstraint(
        "(status = 'resolved') = (resolution IS NOT NULL)", name="resolved_says_on_what_evidence"
    ),
    CheckConstraint(
        "(disposition = 'scheduled') = (retry_at IS NOT NULL)", name="scheduled_has_its_time"
    ),
    CheckConstraint(
        "disposition = 'manual' OR status = 'unresolved'", name="only_unresolved_is_disposed_of"
    ),
    CheckConstraint(
        "archive_operation_id IS NULL OR status = 'archived'", name="only_archived_by_an_operation"
    ),
    CheckConstraint("NOT released OR stream_id IS NOT NULL", name="released_from_a_stream"),
    CheckConstraint("stream_rule IS NULL OR stream_id IS NOT NULL", name="rule_of_a_stream"),
    CheckConstraint("attempts >= 1", name="attempts_counted"),
    CheckConstraint("failure_count >= 0", name="failures_counted"),
)
_unresolved = text("status = 'unresolved'")
# The next messages of a bulk retry, in the order in which they became unresolved.
Index(
    "ix_failed_messages_cut",
    failed_messages.c.failure_seq,
    unique=True,
    postgresql_where=_unresolved,
    sqlite_where=_unresolved,
)
# The same for one queue, endpoint, group or type: each of these is a set of causes.
Index(
    "ix_failed_messages_cause",
    failed_messages.c.cause_id,
    failed_messages.c.failure_seq,
    postgresql_where=_unresolved,
    sqlite_where=_unresolved,
)
# Lists by status, newest failure first; how many there are of each status.
Index("ix_failed_messages_list", failed_messages.c.status, failed_messages.c.last_failure)
# The first pages of lists in these orders: without an index each would read every message. Of the
# 36 us that PostgreSQL takes for a failure they cost about 2 and 1; as much at a change of status.
Index("ix_failed_messages_time_sent", failed_messages.c.time_sent)
Index("ix_failed_messages_modified", failed_messages.c.last_modified)
SETTLED: ColumnElement[bool] = literal_column("status IN ('resolved', 'archived')")
"""The condition that a message may be deleted for its age, in the words of its index."""
# What is settled for longest, for retention.
Index(
    "ix_failed_messages_retention",
    failed_messages.c.status,
    failed_messages.c.resolution,
    failed_messages.c.last_modified,
    postgresql_where=SETTLED,
    sqlite_where=SETTLED,
)
_archived_by_one = text("archive_operation_id IS NOT NULL")
# What an archive operation took, to undo it: only those rows are in the index.
Index(
    "ix_failed_messages_archive_operation",
    failed_messages.c.archive_operation_id,
    failed_messages.c.number,
    postgresql_where=_archived_by_one,
    sqlite_where=_archived_by_one,
)
# With a parameter instead of the literal neither database would see that the index has all of them.
SCHEDULED: ColumnElement[bool] = failed_messages.c.disposition == literal_column("'scheduled'")
"""The condition that a policy has set a time for a retry; only of an unresolved message (check)."""
# What is due by policy, in the order in which it is sent: only those rows are in the index.
Index(
    "ix_failed_messages_due",
    failed_messages.c.retry_at,
    failed_messages.c.failure_seq,
    postgresql_where=SCHEDULED,
    sqlite_where=SCHEDULED,
)
_has_time = text("retry_at IS NOT NULL")
# The same for each rule and cause: rules and queues take turns, however much is due of one. The
# same rows in other words: who asks in these cannot be led to the index above, whose statistics
# may be of a time when nothing was scheduled; then each look would read all that is due.
Index(
    "ix_failed_messages_turns",
    failed_messages.c.policy,
    failed_messages.c.cause_id,
    failed_messages.c.retry_at,
    failed_messages.c.failure_seq,
    postgresql_where=_has_time,
    sqlite_where=_has_time,
)
_dead = text("disposition = 'dead'")
# What bulk retries leave out: counted by cause without a look at what is not dead.
Index(
    "ix_failed_messages_dead",
    failed_messages.c.cause_id,
    failed_messages.c.failure_seq,
    postgresql_where=_dead,
    sqlite_where=_dead,
)
_open_in_stream = text("stream_id IS NOT NULL AND status IN ('unresolved', 'retry_issued')")
# The open messages of a stream, in its order: for each strict message a cut looks for one before.
Index(
    "ix_failed_messages_stream",
    failed_messages.c.stream_queue,
    failed_messages.c.stream_id,
    failed_messages.c.stream_position,
    failed_messages.c.number,
    postgresql_where=_open_in_stream,
    sqlite_where=_open_in_stream,
)
STRICT: ColumnElement[bool] = literal_column(
    "stream_rule = 'strict' AND status = 'unresolved' AND NOT released"
)
"""The condition that an earlier message of its stream may hold a message, in words of its index."""
# Whether there is any message that an earlier one of its stream may hold: empty without a strict
# rule, so that a cut learns at once that it need not ask.
Index(
    "ix_failed_messages_strict",
    failed_messages.c.number,
    postgresql_where=STRICT,
    sqlite_where=STRICT,
)
ISSUED: ColumnElement[bool] = literal_column("status = 'retry_issued'")
"""The condition that the retry of a message was issued, in the words of its index."""
# The pending retries of one queue: without it each message that is being retried would be read.
Index(
    "ix_failed_messages_issued",
    failed_messages.c.cause_id,
    failed_messages.c.number,
    postgresql_where=ISSUED,
    sqlite_where=ISSUED,
)
_derived = text("derived_from IS NOT NULL")
# The messages that carry the stamps of one, for its story: only those rows are in the index.
Index(
    "ix_failed_messages_derived",
    failed_messages.c.derived_from,
    postgresql_where=_derived,
    sqlite_where=_derived,
)
_edited_version = text("edit_of IS NOT NULL")
# The edited versions of a message that failed, for its story: only those rows are in the index.
Index(
    "ix_failed_messages_edit_of",
    failed_messages.c.edit_of,
    postgresql_where=_edited_version,
    sqlite_where=_edited_version,
)
# One message by the id that its sender gave it.
Index("ix_failed_messages_message_id", failed_messages.c.message_id)
# The messages with a text that was found, and whether a text has any message left. With the status,
# so that those of a text that very many have are counted without a look at each.
Index("ix_failed_messages_text", failed_messages.c.text_id, failed_messages.c.status)


message_counts = Table(
    "message_counts",
    metadata,
    Column("entry", Number, primary_key=True, autoincrement=True),
    Column("cause_id", Number, nullable=False),
    Column("status", String(16), nullable=False),
    Column("disposition", String(16), nullable=False),
    Column("change", Number, nullable=False),
)
# Made first, for the triggers, and emptied last: what empties the other one adds rows here.
failed_messages.add_is_dependent_on(message_counts)
_KIND = "cause_id, status, disposition"
_CHANGES = f"INSERT INTO message_counts ({_KIND}, change) SELECT {_KIND},"
COUNT_TRIGGERS = {
    "added": ("INSERT", "NEW TABLE AS added", f"{_CHANGES} count(*) FROM added GROUP BY {_KIND}"),
    "removed": (
        "DELETE",
        "OLD TABLE AS removed",
        f"{_CHANGES} -count(*) FROM removed GROUP BY {_KIND}",
    ),
    "changed": (
        "UPDATE",
        "OLD TABLE AS removed NEW TABLE AS added",
        (
            f"{_CHANGES} sum(one) FROM (SELECT {_KIND}, 1 AS one FROM added UNION ALL "  # noqa: S608 - as above
            f"SELECT {_KIND}, -1 FROM removed) AS both_of_them GROUP BY {_KIND} HAVING sum(one) <> 0"
        ),
    ),
    "emptied": ("TRUNCATE", "", "DELETE FROM message_counts"),
}
"""When each of PostgreSQL's triggers runs, what it sees of the rows, and what it does.

A row for each change: a row that is changed would make transactions wait for each other.
"""


@event.listens_for(failed_messages, "after_create")
def _count_messages(_table: Table, conn: Connection, **_: object) -> None:
    """Make what keeps the counts of PostgreSQL like the messages, in each transaction."""
    if conn.dialect.name != "postgresql":
        return
    for name, (when, seen, does) in COUNT_TRIGGERS.items():
        conn.exec_driver_sql(
            f"CREATE FUNCTION message_counts_{name}() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$ BEGIN {does}; RETURN NULL; END $$"
        )
        conn.exec_driver_sql(
            f"CREATE TRIGGER message_counts_{name} AFTER {when} ON failed_messages "
            f"{f'REFERENCING {seen} ' if seen else ''}"
            f"FOR EACH STATEMENT EXECUTE FUNCTION message_counts_{name}()"
        )


message_fields = Table(
    "message_fields",
    metadata,
    # No foreign key, as for attempts: the message is locked or new, and takes its values with it.
    Column("number", Number, primary_key=True, autoincrement=False),
    Column("name", ByCodePoint, primary_key=True),
    Column("value", ByCodePoint, nullable=False),
    # A number, or the seconds of a time; of other texts empty.
    Column("comparable", Double),
    # The rows stand in the primary key itself: one entry less for each value.
    sqlite_with_rowid=False,
)
# The messages with a value, and those with one in a range, without a look at the rows. One index
# for both: each entry costs a failure time (decision 0122).
Index(
    "ix_message_fields_found",
    message_fields.c.name,
    message_fields.c.comparable,
    message_fields.c.value,
    message_fields.c.number,
)

message_words = Table(
    "message_words",
    metadata,
    # No foreign key, as for fields.
    Column("number", Number, primary_key=True, autoincrement=False),
    # The number, of the counter of failure numbers, under which they were written: what a plan has
    # counted did not have those with a higher one.
    Column("seq", Number, nullable=False),
    Column("words", Words, nullable=False),
)
# The messages with a word. On SQLite a table of its own that a revision makes, WORDS_INDEX.
Index("ix_message_words_words", message_words.c.words, postgresql_using="gin").ddl_if(
    dialect="postgresql"
)
WORDS_INDEX = "message_words_index"
"""The full-text index of SQLite (FTS5): its rows have the numbers of messages."""
_REMOVE_WORDS = (
    f"INSERT INTO {WORDS_INDEX} ({WORDS_INDEX}, rowid, words) "  # noqa: S608 - a name of ours
    "VALUES ('delete', old.number, old.words);"
)
_ADD_WORDS = f"INSERT INTO {WORDS_INDEX} (rowid, words) VALUES (new.number, new.words);"  # noqa: S608 - as above


@event.listens_for(message_words, "after_create")
def _index_words(_table: Table, conn: Connection, **_: object) -> None:
    """Make the index of SQLite, and what keeps it like the table."""
    if conn.dialect.name != "sqlite":
        return
    # Words are cut before they are stored: here a blank ends one, and nothing else does.
    conn.exec_driver_sql(
        f"CREATE VIRTUAL TABLE {WORDS_INDEX} USING fts5(words, content='message_words', "
        "content_rowid='number', tokenize=\"ascii tokenchars '_'\")"
    )
    for name, when, does in (
        ("added", "INSERT", _ADD_WORDS),
        ("removed", "DELETE", _REMOVE_WORDS),
        ("changed", "UPDATE", f"{_REMOVE_WORDS} {_ADD_WORDS}"),
    ):
        conn.exec_driver_sql(
            f"CREATE TRIGGER message_words_{name} AFTER {when} ON message_words BEGIN {does} END"
        )


word_progress = Table(
    "word_progress",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    # Attempts up to this one are read, those of messages that were stored before not counted.
    Column("newest", Number, nullable=False),
    # Of those, the messages with lower numbers are still to be read.
    Column("backlog", Number, nullable=False),
    CheckConstraint("id = 1", name="one_progress"),
)
"""How far the words of messages are read: no row before they were wanted for the first time."""

processing_attempts = Table(
    "processing_attempts",
    metadata,
    Column("attempt_id", Number, primary_key=True, autoincrement=False),
    # No foreign keys: the transaction that adds an attempt has just locked or added its message,
    # and the message's own foreign key holds the cause. Looking both up again took a fifth of
    # PostgreSQL's time for a failure (decision 0026). `retrier verify` looks for strays.
    Column("number", Number, nullable=False),
    Column("cause_id", Number, nullable=False),
    Column("received_at", UtcTime, nullable=False),
    Column("fingerprint", Digest, nullable=False),
    Column("body_hash", Digest, nullable=False),
    Column("redelivered", Boolean, nullable=False),
    Column("dialect", String(32), nullable=False),
    Column("error_queue", Text, nullable=False),
    Column("time_of_failure", UtcTime),
    Column("retry_id", Text),
    Column("disposition", String(16)),
    Column("disposition_reason", Text),
    Column("policy", Text),
    Column("completed_steps", Text),
    Column("exception_message", Text),
    Column("stack_trace", Text),
    # No foreign key: deleting an attempt would search all others for references to it.
    Column("same_body_as", Number),
    Column("raw_properties", LargeBinary, nullable=False),
    # Behind the rest: SQLite puts the end of a row that exceeds its page into other pages.
    Column("body", LargeBinary),
    Column("reason", Text),
    Column("failure_count", Integer),
    Column("retry_at", UtcTime),
    one_of("disposition", Disposition),
    CheckConstraint("(body IS NULL) = (same_body_as IS NOT NULL)", name="one_body"),
)
Index("ix_processing_attempts_message", processing_attempts.c.number)
Index("ix_processing_attempts_redelivery", processing_attempts.c.fingerprint)
_with_steps = text("completed_steps IS NOT NULL")
# What was done before it failed, over all attempts of a message; most have no steps.
Index(
    "ix_processing_attempts_steps",
    processing_attempts.c.number,
    processing_attempts.c.attempt_id,
    postgresql_where=_with_steps,
    sqlite_where=_with_steps,
)
