"""Comments on groups."""

import sqlalchemy as sa
from alembic import op

from retrier.store.schema.types import Id, UtcTime

revision = "1012"
down_revision = "1011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add a table."""
    op.create_table(
        "group_comments",
        sa.Column("group_id", Id(), nullable=False),
        sa.Column("comment", sa.Text(), nullable=False),
        sa.Column("who", sa.Text(), nullable=False),
        sa.Column("written_at", UtcTime, nullable=False),
        sa.PrimaryKeyConstraint("group_id", name=op.f("pk_group_comments")),
        sa.ForeignKeyConstraint(
            ["group_id"],
            ["failure_groups.group_id"],
            name=op.f("fk_group_comments_group_id"),
        ),
    )


def downgrade() -> None:
    """Take it away."""
    op.drop_table("group_comments")
