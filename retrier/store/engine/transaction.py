"""A transaction as verbs see it: a connection, the SQL dialect, and the database's time."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, CursorResult, Executable, Row

from retrier.store.engine.hold_watch import HoldWatch
from retrier.store.engine.sql_dialect import SqlDialect

Rows = Sequence[Mapping[str, Any]]
"""Rows to be written, by column name."""

StoredRow = Row[*tuple[Any, ...]]
"""A row that was read; its columns are those of the statement."""


NOBODY = "00000000-0000-0000-0000-000000000000"


class ConcurrentChange(Exception):
    """Another transaction came in between; Database.transact runs the verb again."""


class Transaction:
    """One transaction. `now` is the database's time, read once, at its first use.

    `fence` is the epoch under which this transaction has renewed the processor's lease; None if
    it is not a transaction of the processor, and `watch` measures how long it holds that lease.
    `counted_by` names the thread: what each counts stands in rows of its own.
    """

    __slots__ = ("_now", "conn", "counted_by", "fence", "sql", "watch")

    def __init__(self, conn: Connection, sql: SqlDialect, counted_by: str = NOBODY) -> None:
        self.conn = conn
        self.sql = sql
        self.counted_by = counted_by
        self.fence: int | None = None
        self.watch: HoldWatch | None = None
        self._now: datetime | None = None

    @property
    def now(self) -> datetime:
        """The database's time; all rows that this transaction writes have the same."""
        if self._now is None:
            self._now = self.sql.now(self.conn)
        return self._now

    def agreed(self, as_of: datetime | None) -> datetime:
        """Return the database's time for what is final: no later than the second look allows.

        None: no second look is asked for.
        """
        return self.now if as_of is None else min(self.now, as_of)

    def hold(self, fence: int, now: datetime) -> None:
        """Note that this transaction renewed the lease under this epoch, at this time."""
        self.fence = fence
        self.watch = HoldWatch()
        self._now = now

    def execute(
        self, statement: Executable, known: Mapping[str, Any] | Rows | None = None
    ) -> CursorResult[*tuple[Any, ...]]:
        """Execute a statement, once for each row if `known` is a sequence of rows."""
        if self.watch is None:
            return self.conn.execute(statement, known)
        with self.watch.timing(statement):
            return self.conn.execute(statement, known)
