"""Which processes run, and in what they differ."""

import sqlalchemy as sa
from alembic import op

from retrier.store.schema.types import Id, Json, UtcTime

revision = "1029"
down_revision = "1027"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add a table."""
    op.create_table(
        "processes",
        sa.Column("session_id", Id, nullable=False),
        sa.Column("instance", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("roles", Json, nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("set_hash", sa.String(64), nullable=False),
        sa.Column("error_queues", Json, nullable=False),
        sa.Column("seen_at", UtcTime, nullable=False),
        sa.PrimaryKeyConstraint("session_id", name=op.f("pk_processes")),
    )


def downgrade() -> None:
    """Take it away."""
    op.drop_table("processes")
