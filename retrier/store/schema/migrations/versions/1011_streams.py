"""Streams: their queue and their order, when operations look at them; the steps of attempts."""

import sqlalchemy as sa
from alembic import op

from retrier.store.schema.types import UtcTime

revision = "1011"
down_revision = "1010"
branch_labels = None
depends_on = None

_OPEN = sa.text("stream_id IS NOT NULL AND status IN ('unresolved', 'retry_issued')")
_HELD = sa.text("stream_rule = 'strict' AND status = 'unresolved' AND NOT released")
_STEPS = sa.text("completed_steps IS NOT NULL")


def upgrade() -> None:
    """Add two columns and three indexes; messages that are in a stream get its queue."""
    op.add_column("failed_messages", sa.Column("stream_queue", sa.Text()))
    op.add_column("retry_operations", sa.Column("look_again_at", UtcTime))
    op.execute(
        "UPDATE failed_messages SET stream_queue = "
        "(SELECT queue FROM causes WHERE causes.cause_id = failed_messages.cause_id) "
        "WHERE stream_id IS NOT NULL"
    )
    op.create_index(
        "ix_failed_messages_stream",
        "failed_messages",
        ["stream_queue", "stream_id", "number"],
        postgresql_where=_OPEN,
        sqlite_where=_OPEN,
    )
    op.create_index(
        "ix_failed_messages_strict",
        "failed_messages",
        ["number"],
        postgresql_where=_HELD,
        sqlite_where=_HELD,
    )
    op.create_index(
        "ix_processing_attempts_steps",
        "processing_attempts",
        ["number", "attempt_id"],
        postgresql_where=_STEPS,
        sqlite_where=_STEPS,
    )


def downgrade() -> None:
    """Take them away."""
    op.drop_index("ix_processing_attempts_steps", table_name="processing_attempts")
    op.drop_index("ix_failed_messages_strict", table_name="failed_messages")
    op.drop_index("ix_failed_messages_stream", table_name="failed_messages")
    op.drop_column("retry_operations", "look_again_at")
    op.drop_column("failed_messages", "stream_queue")
