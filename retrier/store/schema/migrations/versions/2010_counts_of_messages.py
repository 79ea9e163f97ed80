"""Counts of messages by cause, status and disposition, kept by PostgreSQL itself."""

import sqlalchemy as sa
from alembic import op

revision = "2010"
down_revision = "2009"
branch_labels = None
depends_on = None

Number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

_KIND = "cause_id, status, disposition"
_CHANGES = f"INSERT INTO message_counts ({_KIND}, change) SELECT {_KIND},"
_TRIGGERS = {
    "added": ("INSERT", "NEW TABLE AS added", f"{_CHANGES} count(*) FROM added GROUP BY {_KIND}"),
    "removed": (
        "DELETE",
        "OLD TABLE AS removed",
        f"{_CHANGES} -count(*) FROM removed GROUP BY {_KIND}",
    ),
    "changed": (
        "UPDATE",
        "OLD TABLE AS removed NEW TABLE AS added",
        (
            f"{_CHANGES} sum(one) FROM (SELECT {_KIND}, 1 AS one FROM added UNION ALL "  # noqa: S608 - as above
            f"SELECT {_KIND}, -1 FROM removed) AS both_of_them GROUP BY {_KIND} HAVING sum(one) <> 0"
        ),
    ),
    "emptied": ("TRUNCATE", "", "DELETE FROM message_counts"),
}


def upgrade() -> None:
    """Make the table; on PostgreSQL also the triggers, and then count: none is missed between."""
    op.create_table(
        "message_counts",
        sa.Column("entry", Number, autoincrement=True, nullable=False),
        sa.Column("cause_id", Number, nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("disposition", sa.String(16), nullable=False),
        sa.Column("change", Number, nullable=False),
        sa.PrimaryKeyConstraint("entry", name=op.f("pk_message_counts")),
    )
    if op.get_bind().dialect.name != "postgresql":
        return
    for name, (when, seen, does) in _TRIGGERS.items():
        op.execute(
            f"CREATE FUNCTION message_counts_{name}() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$ BEGIN {does}; RETURN NULL; END $$"
        )
        # It locks the table against all writers until the upgrade is over.
        op.execute(
            f"CREATE TRIGGER message_counts_{name} AFTER {when} ON failed_messages "
            f"{f'REFERENCING {seen} ' if seen else ''}"
            f"FOR EACH STATEMENT EXECUTE FUNCTION message_counts_{name}()"
        )
    op.execute(f"{_CHANGES} count(*) FROM failed_messages GROUP BY {_KIND}")
