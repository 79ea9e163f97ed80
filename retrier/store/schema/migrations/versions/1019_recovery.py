"""Recoveries: while there is a row nothing is presumed."""

import sqlalchemy as sa
from alembic import op

from retrier.store.schema.types import UtcTime

revision = "1019"
down_revision = "1018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add a table."""
    op.create_table(
        "recovery",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("since", UtcTime, nullable=False),
        sa.Column("begun_at", UtcTime, nullable=False),
        sa.Column("begun_by", sa.Text(), nullable=False),
        sa.CheckConstraint("id = 1", name=op.f("ck_recovery_one_recovery")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_recovery")),
    )


def downgrade() -> None:
    """Take it away."""
    op.drop_table("recovery")
