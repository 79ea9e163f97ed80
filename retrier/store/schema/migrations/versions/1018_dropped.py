"""Which headers the retries of an operation go without, as its request named them."""

import sqlalchemy as sa
from alembic import op

from retrier.store.schema.types import Json

revision = "1018"
down_revision = "1017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add one column; the operations of before drop none."""
    op.add_column("retry_operations", sa.Column("drop_headers", Json, nullable=True))


def downgrade() -> None:
    """Take it away."""
    op.drop_column("retry_operations", "drop_headers")
