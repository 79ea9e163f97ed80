"""On which machine a message failed, in which process, and at which node of an application."""

import sqlalchemy as sa
from alembic import op

revision = "1020"
down_revision = "1019"
branch_labels = None
depends_on = None

_COLUMNS = ("host", "process", "node")


def upgrade() -> None:
    """Add the columns, empty: what is stored fills them when it fails again."""
    for name in _COLUMNS:
        op.add_column("failed_messages", sa.Column(name, sa.Text()))


def downgrade() -> None:
    """Take them away."""
    for name in reversed(_COLUMNS):
        op.drop_column("failed_messages", name)
