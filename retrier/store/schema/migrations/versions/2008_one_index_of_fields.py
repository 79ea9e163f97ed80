"""One index of the values of fields instead of two, and no rows beside it on SQLite."""

import sqlalchemy as sa
from alembic import op

revision = "2008"
down_revision = "2007"
branch_labels = None
depends_on = None

Number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
ByCodePoint = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")

TABLE = "message_fields"


def upgrade() -> None:
    """Make the index; on SQLite the table anew, in the order of its key. All rows stay."""
    for old in ("ix_message_fields_value", "ix_message_fields_comparable"):
        op.drop_index(old, TABLE)
    if op.get_bind().dialect.name == "sqlite":
        op.rename_table(TABLE, "old_fields")
        op.create_table(
            TABLE,
            sa.Column("number", Number, nullable=False),
            sa.Column("name", ByCodePoint, nullable=False),
            sa.Column("value", ByCodePoint, nullable=False),
            sa.Column("comparable", sa.Double(), nullable=True),
            sa.PrimaryKeyConstraint("number", "name", name=op.f("pk_message_fields")),
            sqlite_with_rowid=False,
        )
        columns = "number, name, value, comparable"
        op.execute(
            f"INSERT INTO {TABLE} ({columns}) "  # noqa: S608 - names written above
            f"SELECT {columns} FROM old_fields ORDER BY number, name"
        )
        op.drop_table("old_fields")
    op.create_index("ix_message_fields_found", TABLE, ["name", "comparable", "value", "number"])
