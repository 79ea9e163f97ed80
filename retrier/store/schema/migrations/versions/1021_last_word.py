"""What a person said of a message last: it stands when the message fails again."""

import sqlalchemy as sa
from alembic import op

revision = "1021"
down_revision = "1020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add a column. Of what is archived or resolved by hand the status says it already."""
    op.add_column("failed_messages", sa.Column("last_word", sa.String(16)))


def downgrade() -> None:
    """Take it away."""
    op.drop_column("failed_messages", "last_word")
