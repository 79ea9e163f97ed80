"""What was decided about a message before it was archived, to be given back."""

import sqlalchemy as sa
from alembic import op

from retrier.store.schema.types import UtcTime

revision = "1024"
down_revision = "1023"
branch_labels = None
depends_on = None

_COLUMNS = (
    ("archived_disposition", sa.String(16)),
    ("archived_reason", sa.Text),
    ("archived_policy", sa.Text),
    ("archived_retry_at", UtcTime),
)


def upgrade() -> None:
    """Add four columns; what was archived before comes back as manual."""
    for name, kind in _COLUMNS:
        op.add_column("failed_messages", sa.Column(name, kind, nullable=True))


def downgrade() -> None:
    """Take them away."""
    for name, _ in reversed(_COLUMNS):
        op.drop_column("failed_messages", name)
