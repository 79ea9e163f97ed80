"""Tables about failed messages: the messages, their bodies, attempts and groups."""

from sqlalchemy import (
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    Sequence,
    String,
    Table,
    Text,
    text,
)

from retrier.domain.failed_message import Disposition, FailedMessageStatus, Resolution
from retrier.store.schema.types import Json, Number, UtcTime, metadata, one_of

failure_seq = Sequence("failure_seq", metadata=metadata)
"""Numbers messages in the order in which they became unresolved (PostgreSQL)."""

counters = Table(
    "counters",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("value", Number, nullable=False),
)
"""The same numbers on SQLite, which has no sequences."""

message_bodies = Table(
    "message_bodies",
    metadata,
    Column("body_hash", String(64), primary_key=True),
    Column("body", LargeBinary, nullable=False),
    Column("size", Integer, nullable=False),
)

failed_messages = Table(
    "failed_messages",
    metadata,
    Column("unique_message_id", String(36), primary_key=True),
    Column("failure_seq", Number, nullable=False),
    Column("message_id", Text),
    Column("status", String(16), nullable=False),
    Column("queue", Text, nullable=False),
    Column("destination", Text, nullable=False),
    Column("endpoint", Text),
    Column("message_type", Text),
    Column("exception_type", Text),
    Column("exception_message", Text),
    Column("stack_trace", Text),
    Column("failure_reason", Text),
    Column("time_sent", UtcTime),
    Column("first_failure", UtcTime, nullable=False),
    Column("last_failure", UtcTime, nullable=False),
    Column("last_failure_known", Boolean, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("completed_steps", Text),
    Column("stream_id", Text),
    Column("disposition", String(16), nullable=False, server_default="manual"),
    Column("disposition_reason", Text),
    Column("retry_at", UtcTime),
    Column("resolution", String(16)),
    Column("resolved_at", UtcTime),
    Column("last_retry_id", String(36)),
    Column("last_modified", UtcTime, nullable=False),
    Column("dialect", String(32), nullable=False),
    Column("error_queue", Text, nullable=False),
    Column("content_type", Text),
    Column("raw_properties", LargeBinary, nullable=False),
    Column("headers", Json, nullable=False),
    Column("body_hash", ForeignKey("message_bodies.body_hash"), nullable=False),
    Column("body_size", Integer, nullable=False),
    Column("maybe_copy_of", String(36)),
    one_of("status", FailedMessageStatus),
    one_of("disposition", Disposition),
    one_of("resolution", Resolution),
    CheckConstraint(
        "(status = 'resolved') = (resolution IS NOT NULL)", name="resolved_says_on_what_evidence"
    ),
    CheckConstraint("attempts >= 1", name="attempts_counted"),
)
_unresolved = text("status = 'unresolved'")
Index(
    "ix_failed_messages_cut",
    failed_messages.c.failure_seq,
    unique=True,
    postgresql_where=_unresolved,
    sqlite_where=_unresolved,
)
Index("ix_failed_messages_list", failed_messages.c.status, failed_messages.c.last_failure)
Index("ix_failed_messages_modified", failed_messages.c.last_modified)
Index("ix_failed_messages_time_sent", failed_messages.c.time_sent)
Index("ix_failed_messages_queue", failed_messages.c.queue, failed_messages.c.failure_seq)
Index("ix_failed_messages_endpoint", failed_messages.c.endpoint, failed_messages.c.failure_seq)
Index("ix_failed_messages_message_id", failed_messages.c.message_id)

processing_attempts = Table(
    "processing_attempts",
    metadata,
    Column("attempt_id", Number, primary_key=True, autoincrement=True),
    Column(
        "unique_message_id",
        ForeignKey("failed_messages.unique_message_id", ondelete="CASCADE"),
        nullable=False,
    ),
    Column("fingerprint", String(64), nullable=False),
    Column("retry_id", String(36)),
    Column("time_of_failure", UtcTime),
    Column("received_at", UtcTime, nullable=False),
    Column("queue", Text, nullable=False),
    Column("endpoint", Text),
    Column("exception_type", Text),
    Column("exception_message", Text),
    Column("stack_trace", Text),
    Column("raw_properties", LargeBinary, nullable=False),
    Column("body_hash", ForeignKey("message_bodies.body_hash"), nullable=False),
    Column("redelivered", Boolean, nullable=False),
)
Index("ix_processing_attempts_message", processing_attempts.c.unique_message_id)
Index("ix_processing_attempts_redelivery", processing_attempts.c.fingerprint)

failure_groups = Table(
    "failure_groups",
    metadata,
    Column("group_id", String(36), primary_key=True),
    Column("classifier", String(64), nullable=False),
    Column("title", Text, nullable=False),
)

# Without foreign keys: a look-up for each group of each message would cost as much as its row, and
# lock a handful of group rows that all ingesting processes share.
failed_message_groups = Table(
    "failed_message_groups",
    metadata,
    Column("unique_message_id", String(36), primary_key=True),
    Column("group_id", String(36), primary_key=True),
)
Index("ix_failed_message_groups_group", failed_message_groups.c.group_id)
