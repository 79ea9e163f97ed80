"""The position in its stream that a sender states, and the index in that order."""

import sqlalchemy as sa
from alembic import op

revision = "1017"
down_revision = "1016"
branch_labels = None
depends_on = None

_OPEN = sa.text("stream_id IS NOT NULL AND status IN ('unresolved', 'retry_issued')")
_INDEX = "ix_failed_messages_stream"


def upgrade() -> None:
    """Add two columns: what is stored already states no position, and keeps its order."""
    position = sa.Column("stream_position", sa.String(30), nullable=False, server_default="2")
    op.add_column("failed_messages", position)
    op.add_column("failed_messages", sa.Column("stream_position_unread", sa.Text()))
    _index("stream_queue", "stream_id", "stream_position", "number")


def downgrade() -> None:
    """Take them away."""
    _index("stream_queue", "stream_id", "number")
    op.drop_column("failed_messages", "stream_position_unread")
    op.drop_column("failed_messages", "stream_position")


def _index(*columns: str) -> None:
    op.drop_index(_INDEX, table_name="failed_messages")
    op.create_index(
        _INDEX, "failed_messages", list(columns), postgresql_where=_OPEN, sqlite_where=_OPEN
    )
