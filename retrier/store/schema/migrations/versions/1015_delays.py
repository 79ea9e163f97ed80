"""How long an operation was asked to wait, to count that anew when the clock was set back."""

import sqlalchemy as sa
from alembic import op

from retrier.store.schema.types import Number

revision = "1015"
down_revision = "1014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add one column."""
    op.add_column("retry_operations", sa.Column("delay_ms", Number, nullable=True))


def downgrade() -> None:
    """Take it away."""
    op.drop_column("retry_operations", "delay_ms")
