"""The first messages that are due of each rule and cause, so that these take turns."""

import sqlalchemy as sa
from alembic import op

revision = "1023"
down_revision = "1021"
branch_labels = None
depends_on = None

_HAS_TIME = sa.text("retry_at IS NOT NULL")


def upgrade() -> None:
    """Add one index."""
    op.create_index(
        "ix_failed_messages_turns",
        "failed_messages",
        ["policy", "cause_id", "retry_at", "failure_seq"],
        postgresql_where=_HAS_TIME,
        sqlite_where=_HAS_TIME,
    )


def downgrade() -> None:
    """Take it away."""
    op.drop_index("ix_failed_messages_turns", table_name="failed_messages")
