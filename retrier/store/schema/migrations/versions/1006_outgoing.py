"""The copies of failures that wait to be sent to the log queue."""

import sqlalchemy as sa
from alembic import op

from retrier.store.schema.types import Number, UtcTime

revision = "1006"
down_revision = "1005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "outgoing",
        sa.Column("outgoing_id", Number, autoincrement=True, nullable=False),
        sa.Column("number", Number, nullable=False),
        sa.Column("attempt_id", Number, nullable=False),
        sa.Column("queue", sa.Text(), nullable=False),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.Column("not_before", UtcTime),
        sa.Column("reason", sa.Text()),
        sa.CheckConstraint(
            "(not_before IS NULL) = (reason IS NULL)", name=op.f("ck_outgoing_put_off_says_why")
        ),
        sa.PrimaryKeyConstraint("outgoing_id", name=op.f("pk_outgoing")),
    )
    op.create_index("ix_outgoing_message", "outgoing", ["number"])


def downgrade() -> None:
    """Drop the table."""
    op.drop_table("outgoing")
