"""The table of attempts: every failure of a message, never changed later."""

from sqlalchemy import (
    Boolean,
    CheckConstraint,
    Column,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
    Text,
    text,
)

from retrier.domain.failed_message import Disposition
from retrier.store.schema.types import Digest, Number, UtcTime, metadata, one_of

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
