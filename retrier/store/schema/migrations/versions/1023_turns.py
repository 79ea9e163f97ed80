"""The first messages that are due of each rule and cause, so that these take turns."""

import sqlalchemy as sa
from alembic import op

revision = "1023"
down_revision = "1019"
branch_labels = None
depends_on = None

_SCHEDULED = sa.text("disposition = 'scheduled'")


def upgrade() -> None:
    """Add one index."""
    op.create_index(
        "ix_failed_messages_turns",
        "failed_messages",
        ["policy", "cause_id", "retry_at", "failure_seq"],
        postgresql_where=_SCHEDULED,
        sqlite_where=_SCHEDULED,
    )


def downgrade() -> None:
    """Take it away."""
    op.drop_index("ix_failed_messages_turns", table_name="failed_messages")
