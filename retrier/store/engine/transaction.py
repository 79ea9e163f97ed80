"""A transaction: a connection, the SQL dialect, the database's time; how long it held; new rows."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import lru_cache
from os import urandom
from time import monotonic
from typing import Any

import psycopg
from sqlalchemy import Column, Connection, CursorResult, Executable, Row, Table
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import DBAPIError, IntegrityError

from retrier.domain.values import dataclass
from retrier.errors import DataRefused
from retrier.store.engine.refusals import DUPLICATE, state_of
from retrier.store.engine.sql_dialect import SqlDialect
from retrier.store.schema.types import Digest, UtcTime, as_bytes, in_utc

_LONGEST_SHOWN = 300
"""Characters of a statement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseHold:
    """How long one transaction has held the lease. `verb` is what it did.

    Its slowest statement took `slowest_seconds`.
    """

    verb: str
    seconds: float
    statements: int
    slowest_statement: Executable | None
    slowest_seconds: float

    @property
    def slowest(self) -> str:
        """The slowest statement, without values.

        Made only if it is asked for: to write a statement takes longer than most take to be executed.
        """
        return " ".join(str(self.slowest_statement).split())[:_LONGEST_SHOWN]


class HoldWatch:
    """Measures a transaction from the moment at which it holds something."""

    __slots__ = ("_began", "_slowest", "_slowest_seconds", "_statements")

    def __init__(self) -> None:
        self._began = monotonic()
        self._statements = 0
        self._slowest: Executable | None = None
        self._slowest_seconds = 0.0

    @contextmanager
    def timing(self, statement: Executable) -> Iterator[None]:
        """Time one statement."""
        began = monotonic()
        try:
            yield
        finally:
            took = monotonic() - began
            self._statements += 1
            if took > self._slowest_seconds:
                self._slowest, self._slowest_seconds = statement, took

    def end(self, verb: str) -> LeaseHold:
        """Return what was measured up to now."""
        return LeaseHold(
            verb=verb,
            seconds=round(monotonic() - self._began, 3),
            statements=self._statements,
            slowest_statement=self._slowest,
            slowest_seconds=round(self._slowest_seconds, 3),
        )


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


def add_new(tx: Transaction, table: Table, rows: Rows) -> None:
    """Add rows in the order given: key order where others may add the same, or they deadlock.

    Raises ConcurrentChange if another process has added one of them meanwhile: the verb must run
    again and see that row.
    """
    if not rows:
        return
    try:
        tx.sql.add_rows(tx.conn, table, rows)
    except IntegrityError as error:
        if state_of(error) == DUPLICATE:
            raise ConcurrentChange from error
        raise


_DIALECT = postgresql.dialect()  # type: ignore[no-untyped-call]  # SQLAlchemy's own


_CONVERTERS: Mapping[type, Callable[[Any], object]] = {UtcTime: in_utc, Digest: as_bytes}
"""What a driver's value is made with, by the type of the column: called for every value."""


def copy_in(conn: Connection, table: Table, rows: Rows) -> None:
    """Add rows that all have the same columns. Raises DBAPIError, DataRefused.

    Runs in the connection's transaction, but directly on the driver: SQLAlchemy has no COPY.
    """
    columns = ", ".join(f'"{name}"' for name in rows[0])
    statement = f"COPY {table.name} ({columns}) FROM STDIN (FORMAT BINARY)"
    try:
        _stream(conn.connection.driver_connection, statement, table, rows)
    except psycopg.Error as error:
        # The error that SQLAlchemy raises for other statements: Translator handles both alike.
        raise DBAPIError.instance(
            statement, None, error, psycopg.Error, hide_parameters=True
        ) from error
    except (TypeError, ValueError, ArithmeticError) as error:
        raise DataRefused(str(error)) from error


def _stream(driver: Any, statement: str, table: Table, rows: Rows) -> None:
    columns = [table.c[name] for name in rows[0]]
    with driver.cursor() as cursor, cursor.copy(statement) as stream:
        stream.set_types([_type_name(column) for column in columns])
        for values in _converted(columns, rows):
            stream.write_row(values)


def _converted(columns: Sequence[Column[Any]], rows: Rows) -> Iterator[list[Any]]:
    """Convert as column types do: in UTC, no time gets a year that the driver cannot read back."""
    own = [
        (at, _CONVERTERS[type(each.type)])
        for at, each in enumerate(columns)
        if type(each.type) in _CONVERTERS
    ]
    for row in rows:
        values = list(row.values())
        for at, convert in own:
            values[at] = convert(values[at])
        yield values


@lru_cache(maxsize=256)
def _type_name(column: Column[Any]) -> str:
    """Return the column's type by the driver's name for it, without length and collation."""
    name = column.type.compile(_DIALECT).lower().partition("(")[0]
    return name.partition(" collate ")[0]


_BYTES = 16


def make_ids(count: int) -> list[str]:
    """Return `count` random ids, version 4 (RFC 9562, 5.4), in a third of the time of `uuid4`."""
    digits = urandom(_BYTES * count).hex()
    return [_write(digits[at : at + 32]) for at in range(0, len(digits), 32)]


def _write(digits: str) -> str:
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"
