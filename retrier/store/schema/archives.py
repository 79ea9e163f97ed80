"""Tables about acts on many messages: archive, unarchive, resolve."""

from sqlalchemy import CheckConstraint, Column, ForeignKey, Index, Integer, String, Table, Text

from retrier.domain.archive_operation import Act, ArchiveOperationState
from retrier.store.schema.types import Digest, Id, Json, Number, UtcTime, metadata, one_of

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
