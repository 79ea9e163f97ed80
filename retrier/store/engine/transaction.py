"""A transaction as verbs see it: a connection, what the database calls things, and its time."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, CursorResult, Executable, Row

from retrier.store.engine.sql_dialect import SqlDialect

Rows = Sequence[Mapping[str, Any]]
"""Rows on their way into a table."""

StoredRow = Row[*tuple[Any, ...]]
"""A row out of one; what its columns are the statement says."""


class ConcurrentChange(Exception):
    """Another transaction got in between; this one is done again from the start."""


class Transaction:
    """One transaction. `now` is the database's time: it is asked once, where it is needed.

    `fence` is the epoch of the processor that has its lease renewed in this transaction, which
    ends with an error once another epoch has begun; None for everybody else.
    """

    __slots__ = ("_now", "conn", "fence", "sql")

    def __init__(self, conn: Connection, sql: SqlDialect) -> None:
        self.conn = conn
        self.sql = sql
        self.fence: int | None = None
        self._now: datetime | None = None

    @property
    def now(self) -> datetime:
        """The database's time, the same for all that this transaction writes."""
        if self._now is None:
            self._now = self.sql.now(self.conn)
        return self._now

    def hold(self, fence: int, now: datetime) -> None:
        """Note that the lease was renewed in this transaction, and when."""
        self.fence = fence
        self._now = now

    def execute(
        self, statement: Executable, known: Mapping[str, Any] | Rows | None = None
    ) -> CursorResult[*tuple[Any, ...]]:
        """Carry out a statement, for each of these rows if there are many."""
        return self.conn.execute(statement, known)
