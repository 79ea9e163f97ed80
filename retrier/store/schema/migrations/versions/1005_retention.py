"""Indexes by which retention finds what is oldest. No row changes."""

import sqlalchemy as sa
from alembic import op

revision = "1005"
down_revision = "1003"
branch_labels = None
depends_on = None

SETTLED = sa.text("status IN ('resolved', 'archived')")


def upgrade() -> None:
    """Add the indexes."""
    op.create_index(
        "ix_failed_messages_retention",
        "failed_messages",
        ["status", "resolution", "last_modified"],
        postgresql_where=SETTLED,
        sqlite_where=SETTLED,
    )
    op.create_index("ix_retry_operations_retention", "retry_operations", ["completed_at"])


def downgrade() -> None:
    """Drop them."""
    op.drop_index("ix_retry_operations_retention", "retry_operations")
    op.drop_index("ix_failed_messages_retention", "failed_messages")
