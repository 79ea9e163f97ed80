"""The messages of one cause whose retry was issued, for pending retries of a queue."""

import sqlalchemy as sa
from alembic import op

revision = "1013"
down_revision = "1012"
branch_labels = None
depends_on = None

_ISSUED = sa.text("status = 'retry_issued'")


def upgrade() -> None:
    """Add one index."""
    op.create_index(
        "ix_failed_messages_issued",
        "failed_messages",
        ["cause_id", "number"],
        postgresql_where=_ISSUED,
        sqlite_where=_ISSUED,
    )


def downgrade() -> None:
    """Take it away."""
    op.drop_index("ix_failed_messages_issued", table_name="failed_messages")
