"""The SQL dialect of SQLite, and a check that the open files are still those at their paths."""

import fcntl
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from threading import Lock
from types import MappingProxyType
from typing import Any

from sqlalchemy import (
    BindParameter,
    Connection,
    Dialect,
    FromClause,
    Select,
    Table,
    Text,
    bindparam,
    func,
    literal,
    select,
    text,
    true,
)
from sqlalchemy.dialects import sqlite
from sqlalchemy.sql import ColumnElement

from retrier.errors import DatabaseUnavailable, DataRefused
from retrier.overlap import WhileInFlight
from retrier.store.engine.sql_dialect import (
    READING,
    RESTRUCTURING,
    Columns,
    JsonArray,
    NumberSource,
    SqlDialect,
)
from retrier.store.schema import counters
from retrier.store.schema.types import Digest, UtcTime, is_json

Identity = tuple[int, int]
"""Device and inode: they identify a file whatever its name."""

_LOGS = ("-wal", "-shm")
_OPEN_BYTE = 128
"""The byte of the -shm file that is locked while a connection is open (UNIX_SHM_DMS)."""


class SqliteFile:
    """One database file, its write-ahead log and that log's index, as this process opened them.

    SQLite goes on with files that were deleted, moved or replaced: all that it commits then is
    lost with the process. The log exists while any connection is open: the last one to close
    writes all of it into the database and deletes it.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._place = self._path.resolve()
        # SQLite puts them beside the file itself, not beside a symbolic link to it.
        self._log_paths = [Path(f"{self._place}{suffix}") for suffix in _LOGS]
        self._lock = Lock()
        self._open = 0
        self._file: Identity | None = None
        self._logs: tuple[Identity | None, ...] = ()

    def note_opened(self, connection: Any, _record: object) -> None:
        """Count a connection; at the first one, note which files are open."""
        # SQLite opens the log at the first read only.
        connection.execute("SELECT 1 FROM sqlite_master").fetchall()
        with self._lock:
            self._open += 1
            if self._open == 1:
                self._file = self._file or _identify(self._path)
                self._logs = tuple(self._identify_logs())

    def note_closed(self, _connection: Any, _record: object) -> None:
        """Count a connection off; after the last one, expect no log."""
        with self._lock:
            self._open -= 1
            if self._open == 0:
                self._logs = ()

    def check(self) -> None:
        """Raise DatabaseUnavailable while other files, or none, are at the paths."""
        if self._file is None:
            return
        if _identify(self._path) != self._file:
            raise DatabaseUnavailable(
                f"cannot reach the database at {self._place}: its file was deleted, moved or "
                "replaced; put it back, or restart Retrier to go on with what is there now"
            )
        if logs := self._logs:
            self._check_logs(logs)

    def is_open_elsewhere(self) -> bool:
        """Say whether another process has the file open. Call it before this process opens it.

        In WAL mode each connection holds a lock on one byte of the -shm file for as long as it is
        open. This process would lose its own locks when it closes the file that it looks into.
        """
        try:
            index = Path(f"{self._place}-shm").open("r+b")  # noqa: SIM115 - closed below
        except OSError:
            return False  # it is not there; or SQLite itself will say what is wrong
        with index:
            try:
                fcntl.lockf(index, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _OPEN_BYTE)
            except OSError:
                return True
        return False

    def _check_logs(self, logs: tuple[Identity | None, ...]) -> None:
        if tuple(self._identify_logs()) != logs:
            raise DatabaseUnavailable(
                f"cannot reach the database at {self._place}: its -wal or -shm file was deleted, "
                "moved or replaced; stop Retrier, which saves what was in it, and start it again"
            )

    def _identify_logs(self) -> Iterator[Identity | None]:
        return map(_identify, self._log_paths)


def _as_stored(moment: datetime) -> str:
    """Write a moment as UtcTime does: JSON has no type for it."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}"


def _identify(path: Path) -> Identity | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


_TAKE = (
    sqlite.insert(counters)
    .values(name=bindparam("name"), value=bindparam("value"))
    .on_conflict_do_update(
        index_elements=["name"], set_={"value": counters.c.value + bindparam("value")}
    )
    .returning(counters.c.value)
)
_LAST = select(counters.c.value).where(counters.c.name == bindparam("counter"))


_AUTO_VACUUM = text("PRAGMA auto_vacuum")
_INCREMENTAL = 2
_FREE_PAGES = text("PRAGMA freelist_count")
_ALL_PAGES = text("PRAGMA page_count")
_PAGES_AT_ONCE = 1000
"""Pages of 4 KiB that one transaction cuts off: others wait for the only lock meanwhile."""


_NOTED = text("SELECT max(seq) FROM sqlite_sequence WHERE name = :table")
_FORGET = text("DELETE FROM sqlite_sequence WHERE name = :table")
_NOTE = text("INSERT INTO sqlite_sequence (name, seq) VALUES (:table, :key)")


def _is_noted(table: Table) -> bool:
    return bool(table.dialect_options["sqlite"]["autoincrement"])


def _highest(table: Table) -> Select[Any]:
    (key,) = table.primary_key.columns
    return select(func.coalesce(func.max(key), 0))


@lru_cache(maxsize=256)
def _insert(
    dialect: Dialect, table: Table, names: tuple[str, ...]
) -> tuple[str, Sequence[tuple[int, Callable[[Any], object]]]]:
    """Return the insert of these columns, and what converts the values at which places."""
    columns = ", ".join(map(dialect.identifier_preparer.quote, names))
    marks = ", ".join("?" * len(names))
    types = (table.c[name].type.dialect_impl(dialect) for name in names)
    converters = ((at, each.bind_processor(dialect)) for at, each in enumerate(types))
    own = [(at, convert) for at, convert in converters if convert is not None]
    return f"INSERT INTO {table.name} ({columns}) VALUES ({marks})", own  # noqa: S608 - names of the schema


def _converted(
    own: Sequence[tuple[int, Callable[[Any], object]]], row: tuple[object, ...]
) -> tuple[object, ...]:
    values = list(row)
    for at, convert in own:
        values[at] = convert(values[at])
    return tuple(values)


class SqliteDialect(SqlDialect):
    """SQLite: one writer at a time, so BEGIN IMMEDIATE is the only lock."""

    reading = MappingProxyType({READING: True})
    restructuring = MappingProxyType({RESTRUCTURING: True})
    keeps_counts = False
    marks_at_once = False

    def now(self, conn: Connection) -> datetime:
        """Return the time of this machine's clock, as SQLite reads it."""
        moment = conn.execute(text("SELECT strftime('%Y-%m-%d %H:%M:%f', 'now')")).scalar_one()
        return datetime.fromisoformat(moment).replace(tzinfo=UTC)

    moments = (bindparam("now", type_=UtcTime), bindparam("later", type_=UtcTime))

    def tell(self, conn: Connection, later: timedelta) -> Mapping[str, object]:
        """Read the clock first: SQLite stores times as text and cannot add to them."""
        now = self.now(conn)
        return {"now": now, "later": now + later}

    def take_numbers(self, conn: Connection, counter: NumberSource, count: int) -> list[int]:
        """Add to the row of `counters`, which replaces a sequence."""
        last = conn.execute(_TAKE, {"name": counter, "value": count}).scalar_one()
        return list(range(last - count + 1, last + 1))

    def last_number(self, conn: Connection, counter: NumberSource) -> int:
        """Read the row of `counters`; 0 before its first use."""
        return conn.execute(_LAST, {"counter": counter}).scalar_one_or_none() or 0

    def share_cut_off(self, conn: Connection, *, by_index: bool = False) -> None:
        """Do nothing: BEGIN IMMEDIATE lets one transaction write at a time."""

    def take_entry_number(self, conn: Connection, *, by_index: bool = False) -> int:  # noqa: ARG002
        """Take the number: BEGIN IMMEDIATE lets one transaction write at a time."""
        return self.take_numbers(conn, NumberSource.FAILURE_SEQ, 1)[0]

    def take_cut_off(self, conn: Connection) -> None:
        """Do nothing: BEGIN IMMEDIATE lets one transaction write at a time."""

    def reserve_key(self, conn: Connection, key: str) -> None:
        """Do nothing: BEGIN IMMEDIATE lets one transaction write at a time."""

    def reserve_bytes(self, conn: Connection, fingerprints: Collection[str]) -> None:
        """Do nothing: BEGIN IMMEDIATE lets one transaction write at a time."""

    def force_index_order(self, conn: Connection) -> None:
        """Do nothing: with one writer no lock order matters, and SQLite uses indexes anyway."""

    def read_once_in_joins(self, conn: Connection) -> None:
        """Do nothing: SQLite keeps the counts that a join needs, and was told what to assume."""

    def beside(self, rows: FromClause, query: Select[Any]) -> tuple[FromClause, Columns]:
        """Find them by their keys: SQLite has no LATERAL."""
        key: Any = next(iter(query.selected_columns))
        found = key.table.alias("beside")
        keys = query.with_only_columns(key)
        return rows.join(found, found.c[key.name].in_(keys)), found.c

    def using_waits(
        self,
        conn: Connection,  # noqa: ARG002 - PostgreSQL uses it
        while_in_flight: WhileInFlight,  # noqa: ARG002 - PostgreSQL uses it
    ) -> AbstractContextManager[None]:
        """Do nothing: SQLite works in this very thread, so there is no wait to use."""
        return nullcontext()

    def without_timeouts(self, conn: Connection, lock: str) -> None:
        """Do nothing: no statement has a time limit, and the only writer needs no lock."""

    def find_strays(self, conn: Connection) -> frozenset[str]:
        """Check all foreign keys of all tables."""
        return frozenset(row[0] for row in conn.execute(text("PRAGMA foreign_key_check")))

    def lock_table(self, conn: Connection, table: Table) -> None:
        """Do nothing: nobody else can write while this transaction does."""

    def hold_still(self, conn: Connection, tables: Sequence[Table]) -> None:
        """Do nothing: BEGIN IMMEDIATE lets one transaction write at a time."""

    def find_sessions(self, conn: Connection) -> Sequence[str]:  # noqa: ARG002 - PostgreSQL uses it
        """Return nothing: SQLite knows no sessions. `SqliteFile.is_open_elsewhere` knows locks."""
        return ()

    def size_of(self, column: ColumnElement[Any]) -> ColumnElement[int]:
        """Return the length: of text in characters, of bytes without reading them."""
        return func.length(column)

    def restore_rows(
        self, conn: Connection, table: Table, rows: Sequence[Mapping[str, Any]]
    ) -> None:
        """Insert them one by one, in one call of the driver; JSON is stored as text anyway."""
        values = {
            each.name: bindparam(each.name, type_=Text() if is_json(each) else each.type)
            for each in table.columns
            if each.name in rows[0]
        }
        conn.execute(table.insert().values(values), rows)

    def delete_all(self, conn: Connection, tables: Sequence[Table]) -> None:
        """Delete from the last table to the first."""
        for table in reversed(tables):
            conn.execute(table.delete())

    def set_last_number(self, conn: Connection, counter: NumberSource, number: int) -> None:
        """Write the row of `counters`."""
        row = sqlite.insert(counters).values(name=counter, value=number)
        conn.execute(row.on_conflict_do_update(index_elements=["name"], set_={"value": number}))

    def last_key(self, conn: Connection, table: Table) -> int:
        """Read what AUTOINCREMENT has noted; without it the highest key that there is counts."""
        if not _is_noted(table):
            return int(conn.execute(_highest(table)).scalar_one())
        noted = conn.execute(_NOTED, {"table": table.name}).scalar_one_or_none()
        return int(noted or 0)

    def set_last_key(self, conn: Connection, table: Table, key: int) -> None:
        """Note it for AUTOINCREMENT; without it SQLite goes on behind the highest key."""
        if _is_noted(table):
            conn.execute(_FORGET, {"table": table.name})
            conn.execute(_NOTE, {"table": table.name, "key": key})

    def take_statistics(self, conn: Connection, tables: Sequence[Table]) -> None:
        """Do nothing: its planner works without statistics here, as in every other file."""

    def give_back_pages(self, conn: Connection) -> bool:
        """Cut free pages off the file while they are over a quarter; new rows use the others.

        A file without `auto_vacuum=incremental` keeps its size: only VACUUM could change that.
        """
        if conn.execute(_AUTO_VACUUM).scalar_one() != _INCREMENTAL:
            return False
        free, pages = (conn.execute(count).scalar_one() for count in (_FREE_PAGES, _ALL_PAGES))
        spare = (4 * free - pages) // 3  # pages to go until a quarter of the rest is free
        for _ in range(min(spare, _PAGES_AT_ONCE)):
            # One page at a time: whatever number it is told, the driver takes one step only.
            conn.exec_driver_sql("PRAGMA incremental_vacuum(1)")
        left: int = conn.execute(_FREE_PAGES).scalar_one()
        return left < int(free) and spare > _PAGES_AT_ONCE

    def announce_request(self, conn: Connection) -> None:
        """Do nothing: other processes look for requests once a second."""

    def insert(self, table: Table) -> sqlite.Insert:
        """Return SQLite's insert."""
        return sqlite.insert(table)

    def add_rows(self, conn: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
        """Insert them one by one, in one call of the driver (executemany).

        As tuples, which the driver takes as they are: rows by names take SQLAlchemy as long as SQLite.
        """
        statement, own = _insert(conn.dialect, table, tuple(rows[0]))
        values = [tuple(row.values()) for row in rows]
        try:
            if own:
                values = [_converted(own, each) for each in values]
            conn.exec_driver_sql(statement, values)
        except (TypeError, ValueError, ArithmeticError) as error:
            raise DataRefused(str(error)) from error

    def add_missing(
        self,
        conn: Connection,
        table: Table,
        columns: Mapping[str, Sequence[Any]],
        same: Mapping[str, Any],
    ) -> None:
        """Insert them one by one, in one call of the driver (executemany)."""
        rows = [
            {**dict(zip(columns, row, strict=True)), **same}
            for row in zip(*columns.values(), strict=True)
        ]
        conn.execute(sqlite.insert(table).on_conflict_do_nothing(), rows)

    def add_numbered(
        self,
        conn: Connection,
        table: Table,
        columns: Mapping[str, Sequence[Any]],
        shown: tuple[ColumnElement[Any], ColumnElement[Any]],
    ) -> Mapping[Any, int]:
        """Read the rows above the highest number so far: nobody else writes."""
        number = shown[1]
        before = conn.execute(select(func.coalesce(func.max(number), 0))).scalar_one()
        self.add_missing(conn, table, columns, {})
        added = conn.execute(select(*shown).where(number > before))
        return {row[0]: row[1] for row in added}

    def insert_columns(
        self, table: Table, columns: Mapping[str, Sequence[Any]], same: Mapping[str, Any]
    ) -> sqlite.Insert:
        """Insert what `rows_of` sends."""
        shared = [literal(value, table.c[name].type) for name, value in same.items()]
        # Without a WHERE before it, SQLite parses ON CONFLICT as the condition of a join.
        rows = self.rows_of(columns, table).add_columns(*shared).where(true())
        return sqlite.insert(table).from_select([*columns, *same], rows)

    def rows_of(self, columns: Mapping[str, Sequence[Any]], table: Table) -> Select[Any]:  # noqa: ARG002 - PostgreSQL needs it
        """Send one JSON array of rows."""
        made = json.dumps(list(zip(*columns.values(), strict=True)), default=_as_stored)
        row = func.json_each(made).table_valued("value").c.value
        values = (func.json_extract(row, f"$[{place}]") for place in range(len(columns)))
        return select(*(each.label(name) for name, each in zip(columns, values, strict=True)))

    def values(
        self, column: ColumnElement[Any], name: str | None, values: Sequence[Any] | None = None
    ) -> BindParameter[Any]:
        """Send one JSON array: a batch may have more ids than SQLite allows parameters.

        Hashes are one parameter each, because JSON has no bytes; there are few of them.
        """
        if isinstance(column.type, Digest):
            return bindparam(name, values, type_=column.type, expanding=True)
        return bindparam(name, values, type_=JsonArray)

    def among(self, column: ColumnElement[Any], values: BindParameter[Any]) -> ColumnElement[bool]:
        """Expand the array with `json_each`."""
        if values.expanding:
            return column.in_(values)
        return column.in_(select(func.json_each(values).table_valued("value").c.value))


SQLITE = SqliteDialect()
