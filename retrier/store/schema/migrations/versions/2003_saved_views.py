"""Saved views: a list of the page with its conditions, under a name."""

import sqlalchemy as sa
from alembic import op

revision = "2003"
down_revision = "2002"
branch_labels = None
depends_on = None

Number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
UtcTime = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "saved_views",
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("page", sa.String(16), nullable=False),
        sa.Column("query", sa.Text(), nullable=False),
        sa.Column("who", sa.Text(), nullable=False),
        sa.Column("saved_at", UtcTime, nullable=False),
        sa.Column("version", Number, nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_saved_views")),
        sa.CheckConstraint(
            "page IN ('messages', 'groups', 'events', 'archived', 'pending')",
            name=op.f("ck_saved_views_page_known"),
        ),
    )
