"""How far error queues are read: a canary needs to know that nothing is on its way back."""

import sqlalchemy as sa
from alembic import op

from retrier.store.schema.types import Id, UtcTime

revision = "1025"
down_revision = "1024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add a table, and a column for when the wait of a canary ended."""
    op.create_table(
        "error_queue_reads",
        sa.Column("session_id", Id, nullable=False),
        sa.Column("queue", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("process_started", sa.Text(), nullable=False),
        sa.Column("seen_at", UtcTime, nullable=False),
        sa.Column("level_at", UtcTime, nullable=True),
        sa.Column("ready", sa.Integer(), nullable=True),
        sa.Column("stopped", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.PrimaryKeyConstraint("session_id", "queue", name=op.f("pk_error_queue_reads")),
    )
    op.add_column("retry_operation_canaries", sa.Column("waited_until", UtcTime, nullable=True))


def downgrade() -> None:
    """Take them away."""
    op.drop_column("retry_operation_canaries", "waited_until")
    op.drop_table("error_queue_reads")
