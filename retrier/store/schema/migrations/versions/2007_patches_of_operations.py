"""Patches: what an operation changes of each message that it sends."""

import sqlalchemy as sa
from alembic import op

revision = "2007"
down_revision = "2006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; no operation has a patch yet."""
    op.add_column("retry_operations", sa.Column("patch", sa.Text(), nullable=True))
