"""Whose stamps a message carries that is another one: for the stories of both."""

import sqlalchemy as sa
from alembic import op

from retrier.store.schema.types import Id

revision = "1014"
down_revision = "1013"
branch_labels = None
depends_on = None

_DERIVED = sa.text("derived_from IS NOT NULL")


def upgrade() -> None:
    """Add a column and its index; of the messages stored before nothing is known."""
    op.add_column("failed_messages", sa.Column("derived_from", Id()))
    op.create_index(
        "ix_failed_messages_derived",
        "failed_messages",
        ["derived_from"],
        postgresql_where=_DERIVED,
        sqlite_where=_DERIVED,
    )


def downgrade() -> None:
    """Take them away."""
    op.drop_index("ix_failed_messages_derived", table_name="failed_messages")
    op.drop_column("failed_messages", "derived_from")
