"""Fields: values in messages by which people look for them, as the settings declare."""

import sqlalchemy as sa
from alembic import op

revision = "2006"
down_revision = "2005"
branch_labels = None
depends_on = None

Number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
ByCodePoint = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Make the table; what is stored already has no values yet."""
    op.create_table(
        "message_fields",
        sa.Column("number", Number, nullable=False),
        sa.Column("name", ByCodePoint, nullable=False),
        sa.Column("value", ByCodePoint, nullable=False),
        sa.Column("comparable", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("number", "name", name=op.f("pk_message_fields")),
    )
    op.create_index("ix_message_fields_value", "message_fields", ["name", "value", "number"])
    compared = sa.text("comparable IS NOT NULL")
    op.create_index(
        "ix_message_fields_comparable",
        "message_fields",
        ["name", "comparable", "number"],
        postgresql_where=compared,
        sqlite_where=compared,
    )
