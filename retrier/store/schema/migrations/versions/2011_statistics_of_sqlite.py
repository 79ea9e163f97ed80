"""What SQLite's planner is to assume: of one status there may be very many messages."""

import sqlalchemy as sa
from alembic import op

revision = "2011"
down_revision = "2010"
branch_labels = None
depends_on = None

_INDEX = "ix_failed_messages_list"
_ROWS = "10000000 2500000 2"
"""Rows of the index, and how many of them have the same status, and also the same time."""


def upgrade() -> None:
    """Write a line of statistics. PostgreSQL's are its own, and always fresh.

    Without any SQLite takes ten messages for all of one status: it sorted all that are unresolved
    for each batch, where an index has them in their order.
    """
    if op.get_bind().dialect.name != "sqlite":
        return
    op.execute("ANALYZE sqlite_schema")  # makes the table of statistics, and reads nothing
    op.execute(sa.text("DELETE FROM sqlite_stat1 WHERE idx = :index").bindparams(index=_INDEX))
    line = sa.text("INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES (:table, :index, :rows)")
    op.execute(line.bindparams(table="failed_messages", index=_INDEX, rows=_ROWS))
    op.execute("ANALYZE sqlite_schema")  # this connection takes note of it; others when they open
