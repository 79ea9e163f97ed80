"""Copies a whole database into another one, in transactions of one page each.

The source is held still by one transaction that changes nothing. The target says of itself that it
is unfinished, until all of it was read back and compared: no version of Retrier uses it before. The
key of the last row that was copied is written with each page, so that a copy which was killed goes
on behind it.

That is written in a table of its own (`unfinished_copy`). It is no part of the schema: it is made
in the target when a copy begins, and dropped when it is finished.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from hashlib import blake2b
from itertools import accumulate, takewhile
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    LargeBinary,
    MetaData,
    Select,
    String,
    Table,
    Text,
    cast,
    delete,
    func,
    inspect,
    literal,
    select,
    tuple_,
)
from sqlalchemy.types import TypeDecorator

from retrier.domain.values import dataclass
from retrier.errors import CopyRefused
from retrier.store import upkeep
from retrier.store.engine.database import Database, bind, reading, writing
from retrier.store.engine.sql_dialect import IN_BINARY, NumberSource
from retrier.store.engine.transaction import Transaction
from retrier.store.lease import Holder, find_holder
from retrier.store.revisions import read_revision
from retrier.store.schema import (
    counters,
    error_queue_reads,
    message_counts,
    message_words,
    metadata,
    word_progress,
)
from retrier.store.schema.types import UtcTime, is_json
from retrier.store.upgrade import (
    UNFINISHED,
    become_current,
    become_unfinished,
    lock_upgrades,
    make_schema,
)
from retrier.store.verification import VerifiedRule, verify_rows, verify_store

reads = error_queue_reads.c


unfinished_copy = Table(
    "unfinished_copy",
    MetaData(),
    Column("name", String(64), primary_key=True),
    Column("value", Text, nullable=False),
)

_ORIGIN = "origin"
_OF_A_TABLE = "table:"


def begin_copy(tx: Transaction, origin: Mapping[str, str]) -> None:
    """Make the table, and write down what is copied."""
    unfinished_copy.create(tx.conn)
    put_value(tx, _ORIGIN, origin)


def find_origin(tx: Transaction) -> Mapping[str, str]:
    """Return what is copied, as `begin` wrote it."""
    return dict(_values(tx)[_ORIGIN])


def put_progress(tx: Transaction, table: str, progress: Mapping[str, object]) -> None:
    """Write how far a table is copied, in the transaction that adds its rows."""
    put_value(tx, f"{_OF_A_TABLE}{table}", progress)


def list_progress(tx: Transaction) -> Mapping[str, Mapping[str, object]]:
    """Return how far each table is copied, by its name."""
    return {
        name.removeprefix(_OF_A_TABLE): value
        for name, value in _values(tx).items()
        if name.startswith(_OF_A_TABLE)
    }


def forget_progress(tx: Transaction) -> None:
    """Say that nothing is copied yet."""
    tx.execute(delete(unfinished_copy).where(unfinished_copy.c.name != _ORIGIN))


def end_copy(tx: Transaction) -> None:
    """Drop the table: the copy is finished."""
    unfinished_copy.drop(tx.conn)


def put_value(tx: Transaction, name: str, value: object) -> None:
    """Write one row."""
    row = tx.sql.insert(unfinished_copy).values(name=name, value=json.dumps(value))
    tx.execute(
        row.on_conflict_do_update(index_elements=["name"], set_={"value": row.excluded.value})
    )


def _values(tx: Transaction) -> dict[str, dict[str, str]]:
    rows = tx.execute(select(unfinished_copy)).all()
    return {row.name: json.loads(row.value) for row in rows}


HEARD = timedelta(seconds=90)
"""A process of which nothing is known but that it wrote something may be alive for so long."""


@dataclass(frozen=True, slots=True)
class Users:
    """A phrase for each sign that a process works with a database.

    A session of a process that was killed is there for a moment more.
    """

    processes: tuple[str, ...]
    sessions: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.processes or self.sessions)

    def __str__(self) -> str:
        return "; ".join([*self.processes, *self.sessions])


@reading
def find_users(
    tx: Transaction, is_dead: Callable[[Holder], bool], is_alive: Callable[[Holder], bool]
) -> Users:
    """Return the signs that a process works with it.

    A process of another host can be found neither dead nor alive: what it has written lately
    counts. Raises DatabaseUnavailable.
    """
    processes = dict.fromkeys([*_leading(tx, is_dead), *_reading(tx, is_dead, is_alive)])
    return Users(tuple(processes), tuple(dict.fromkeys(_connected(tx))))


def _leading(tx: Transaction, is_dead: Callable[[Holder], bool]) -> Iterator[str]:
    holder = find_holder(tx)
    if holder is not None and not is_dead(holder):
        yield f"process {holder.pid} on {holder.host} holds the lease of the processor"


def _reading(
    tx: Transaction, is_dead: Callable[[Holder], bool], is_alive: Callable[[Holder], bool]
) -> Iterator[str]:
    columns = (reads.session_id, reads.host, reads.pid, reads.process_started, reads.seen_at)
    for session_id, host, pid, started, seen_at in tx.execute(
        select(*columns).where(~reads.stopped)
    ):
        process = Holder(session_id=session_id, host=host, pid=pid, process_started=started)
        if is_alive(process) or (seen_at > tx.now - HEARD and not is_dead(process)):
            yield f"process {pid} on {host} reads error queues"


def _connected(tx: Transaction) -> Iterator[str]:
    for address in tx.sql.find_sessions(tx.conn):
        yield f"Retrier is connected from {address}"


Key = tuple[Any, ...]
"""The values of the primary key of a row."""


@dataclass(frozen=True, slots=True)
class Most:
    """How many rows a page has at most, and bytes of texts and bodies: a larger row stands alone."""

    rows: int = 2000
    bytes: int = 8 * 2**20


PAGE = Most()
_SUM = 2**128


def list_tables() -> tuple[Table, ...]:
    """Return every table of the schema, those first that others refer to.

    Without `counters`: numbers are rows on SQLite and sequences on PostgreSQL. Without words:
    the databases store them differently, and they are read again from the messages. And without
    counts of messages: PostgreSQL makes them as messages are added, SQLite has none.
    """
    left_out = (counters, message_counts, message_words, word_progress)
    return tuple(table for table in metadata.sorted_tables if table not in left_out)


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """How many rows, and a sum over all their values that does not depend on their order.

    The sums of equal rows are equal on both databases. `last` is the key of the last row.
    """

    rows: int = 0
    sum: int = 0
    last: Key | None = None

    def is_same(self, other: "Extent") -> bool:
        """Say whether these are the same rows."""
        return (self.rows, self.sum) == (other.rows, other.sum)

    def and_then(self, page: "CopiedPage") -> "Extent":
        """Return the extent of these rows and those of the page behind them."""
        total = sum(_digest(row, page.documents) for row in page.rows)
        return Extent(
            rows=self.rows + len(page.rows), sum=(self.sum + total) % _SUM, last=page.last
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedPage:
    """Rows by column name, as `SqlDialect.restore_rows` takes them: JSON is its text."""

    rows: Sequence[Mapping[str, Any]]
    last: Key
    documents: frozenset[str]


def read_pages(
    tx: Transaction,
    table: Table,
    after: Key | None = None,
    up_to: Key | None = None,
    most: Most = PAGE,
) -> Iterator[CopiedPage]:
    """Yield the rows behind one key, up to another one, or all of them."""
    last = after
    while (end := _find_end(tx, table, most, last, up_to)) is not None:
        yield _read(tx, table, last, end)
        last = end


def measure(tx: Transaction, table: Table, up_to: Key | None = None) -> Extent:
    """Read all rows, or those up to a key."""
    extent = Extent()
    for page in read_pages(tx, table, up_to=up_to):
        extent = extent.and_then(page)
    return extent


def count_rows(tx: Transaction, table: Table) -> int:
    """Count the rows of a table."""
    return int(tx.execute(select(func.count()).select_from(table)).scalar_one())


def write_key(key: Key) -> str:
    """Return a key as text, for a column."""
    return json.dumps([v.isoformat() if isinstance(v, datetime) else v for v in key])


def read_key(table: Table, text: str) -> Key:
    """Return the key that was written."""
    pairs = zip(table.primary_key.columns, json.loads(text), strict=True)
    return tuple(
        datetime.fromisoformat(value) if isinstance(column.type, UtcTime) else value
        for column, value in pairs
    )


def _find_end(
    tx: Transaction, table: Table, most: Most, after: Key | None, up_to: Key | None
) -> Key | None:
    """Return the key of the last row of the next page; None behind the last page."""
    keys = list(table.primary_key.columns)
    query = _between(select(*keys, _size(tx, table)), table, after, up_to).limit(most.rows)
    found = tx.execute(query).all()
    if not found:
        return None
    sizes = accumulate(int(row[-1]) for row in found)
    fitting = sum(1 for _ in takewhile(lambda size: size <= most.bytes, sizes))
    return tuple(found[max(fitting, 1) - 1][:-1])


def _read(tx: Transaction, table: Table, after: Key | None, end: Key) -> CopiedPage:
    columns = [column for column in table.columns if column.computed is None]
    documents = frozenset(column.name for column in columns if is_json(column))
    read = [
        cast(each, Text).label(each.name) if each.name in documents else each for each in columns
    ]
    query = _between(select(*read), table, after, end).execution_options(**{IN_BINARY: True})
    rows = tx.execute(query).mappings().all()
    return CopiedPage(rows=[dict(row) for row in rows], last=end, documents=documents)


def _between(query: Select[Any], table: Table, after: Key | None, up_to: Key | None) -> Select[Any]:
    keys = list(table.primary_key.columns)

    def one(key: Key) -> ColumnElement[Any]:
        return tuple_(*(literal(v, c.type) for c, v in zip(keys, key, strict=True)))

    if after is not None:
        query = query.where(tuple_(*keys) > one(after))
    if up_to is not None:
        query = query.where(tuple_(*keys) <= one(up_to))
    return query.order_by(*keys)


def _size(tx: Transaction, table: Table) -> ColumnElement[int]:
    long = [column for column in table.columns if _is_long(column)]
    sizes = [func.coalesce(tx.sql.size_of(column), 0) for column in long]
    return sum(sizes, literal(0))


def _is_long(column: Column[Any]) -> bool:
    """Say whether a column has no bound: of a type of our own the type below it says so."""
    kind = column.type
    return isinstance(kind.impl if isinstance(kind, TypeDecorator) else kind, LargeBinary | Text)


def _digest(row: Mapping[str, Any], documents: frozenset[str]) -> int:
    """Return a number that depends on every value of a row, and on their types."""
    hashed = blake2b(digest_size=16)
    plain: list[object] = []
    for name, value in row.items():
        match value:
            case bytes():
                plain.append((name, len(value)))
                hashed.update(value)
            case str() if name in documents:
                # PostgreSQL keeps no order of members, and no blanks between them.
                plain.append(json.dumps(json.loads(value), sort_keys=True))
            case _:
                plain.append(value)
    hashed.update(repr(plain).encode("utf-8", "surrogatepass"))
    return int.from_bytes(hashed.digest())


_NOT_THE_SAME = "is an unfinished copy of another database"
_EMPTY_IT = "name an empty database"


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyStep:
    """What a copy has just done: `done` of `total` rows of a table, copied or compared."""

    doing: str
    table: str
    done: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedTable:
    """A table, and how many rows both databases have of it."""

    table: str
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedDatabase:
    """What was copied, from which place to which. The broken rules are the same in both databases.

    `resumed` counts the rows that an earlier call had copied; `began_anew` says that these were
    deleted, because the source had changed since.
    """

    source: str
    target: str
    tables: tuple[CopiedTable, ...]
    broken: tuple[VerifiedRule, ...]
    resumed: int
    began_anew: bool


Tell = Callable[[CopyStep], None]
Extents = Mapping[str, Extent]
"""How much of each table a target has already, by its name."""


def copy_whole(source: Database, target: Database, tell: Tell, most: Most = PAGE) -> CopiedDatabase:
    """Copy every table, compare every row, verify both, and let the target be used.

    Both are opened already; nobody works with the source. Raises CopyRefused, DatabaseUnavailable,
    DataRefused.
    """
    return source.transact(lambda tx: _Copying(source, tx, target, tell, most).run())


class _Copying:
    """One copy on its way: `tx` reads the source, which is held still until it ends."""

    def __init__(
        self, source: Database, tx: Transaction, target: Database, tell: Tell, most: Most
    ) -> None:
        self._source = source
        self._tx = tx
        self._target = target
        self._tell = tell
        self._most = most

    def run(self) -> CopiedDatabase:
        tables = list_tables()
        # First: it also lifts the limit of a transaction that waits for the other database.
        self._tx.sql.hold_still(self._tx.conn, tables)
        origin = _origin(self._tx)
        found = _prepare(self._target, origin)
        began_anew = not self._is_as_it_was(found)
        if began_anew:
            _begin_anew(self._target)
            found = {}
        resumed = sum(each.rows for each in found.values())
        extents = {table.name: self._copy(table, found) for table in tables}
        self._compare(extents)
        broken = self._verify()
        _finish(self._target, _numbers(self._tx), origin["revision"])
        copied = tuple(CopiedTable(table=name, rows=each.rows) for name, each in extents.items())
        return CopiedDatabase(
            source=self._source.place,
            target=self._target.place,
            tables=copied,
            broken=broken,
            resumed=resumed,
            began_anew=began_anew,
        )

    def _is_as_it_was(self, found: Extents) -> bool:
        """Say whether the source still has the rows that were copied before: it may have worked."""
        for table in list_tables():
            was = found.get(table.name, Extent())
            if was.last is not None and not measure(self._tx, table, was.last).is_same(was):
                return False
        return True

    def _copy(self, table: Table, found: Extents) -> Extent:
        total = count_rows(self._tx, table)
        extent = found.get(table.name, Extent())
        self._tell(CopyStep(doing="copied", table=table.name, done=extent.rows, total=total))
        for page in read_pages(self._tx, table, extent.last, most=self._most):
            extent = extent.and_then(page)
            _add_page(self._target, table, page, extent)
            self._tell(CopyStep(doing="copied", table=table.name, done=extent.rows, total=total))
        return extent

    def _compare(self, extents: Mapping[str, Extent]) -> None:
        """Read the target back. Raises CopyRefused."""
        for table in list_tables():
            wanted = extents[table.name]
            there = self._target.read(bind(measure, table))
            if not there.is_same(wanted):
                raise CopyRefused(
                    f"{self._target.place} is not a true copy: {table.name} has {there.rows:,} rows "
                    f"there, and {wanted.rows:,} in {self._source.place}"
                    f"{', with other values' if there.rows == wanted.rows else ''}; {_EMPTY_IT}"
                )
            step = CopyStep(doing="compared", table=table.name, done=there.rows, total=wanted.rows)
            self._tell(step)

    def _verify(self) -> tuple[VerifiedRule, ...]:
        """Return the rules that are broken in both. Raises CopyRefused if they differ."""
        before, after = (
            {each.rule: each for each in found.rules if each.broken}
            for found in (verify_rows(self._tx), verify_store(self._target))
        )
        for rule in {**before, **after}:
            counts = [each[rule].broken if rule in each else 0 for each in (before, after)]
            if counts[0] != counts[1]:
                raise CopyRefused(
                    f"`{rule}` is off by {counts[0]:,} in {self._source.place} and by "
                    f"{counts[1]:,} in {self._target.place}"
                )
        return tuple(before.values())


def _origin(tx: Transaction) -> Mapping[str, str]:
    """Return what tells this source from others: a database of the same rows is the same."""
    return {
        "installation": upkeep.find_installation_id(tx) or "none",
        "revision": read_revision(tx).wanted,
    }


def _prepare(target: Database, origin: Mapping[str, str]) -> Extents:
    """Make a target of an empty database, or find how far it is. Raises CopyRefused."""
    return target.restructure(bind(_prepare_target, target.place, origin))


def _prepare_target(tx: Transaction, place: str, origin: Mapping[str, str]) -> Extents:
    lock_upgrades(tx)
    revision = read_revision(tx)
    if revision.current == UNFINISHED:
        if find_origin(tx) != origin:
            raise CopyRefused(f"{place} {_NOT_THE_SAME}, or of another version: {_EMPTY_IT}")
        return _find_progress(tx)
    if revision.current is None and not _has_our_tables(tx):
        make_schema(tx, place, revision)
    elif not revision.is_current or _has_rows(tx):
        raise CopyRefused(_why_not_empty(tx, place, origin, is_current=revision.is_current))
    begin_copy(tx, origin)
    become_unfinished(tx)
    return {}


def _has_our_tables(tx: Transaction) -> bool:
    there = inspect(tx.conn).get_table_names()
    return not {table.name for table in list_tables()}.isdisjoint(there)


def _has_rows(tx: Transaction) -> bool:
    return any(count_rows(tx, table) for table in list_tables())


def _why_not_empty(
    tx: Transaction, place: str, origin: Mapping[str, str], *, is_current: bool
) -> str:
    if is_current and upkeep.find_installation_id(tx) == origin["installation"]:
        return (
            f"{place} is not empty: it is a finished copy of the same installation already, or the "
            f"database itself; to copy once more {_EMPTY_IT}"
        )
    return f"{place} is not empty, and nothing was changed there: {_EMPTY_IT}"


def _find_progress(tx: Transaction) -> Extents:
    tables = {table.name: table for table in list_tables()}
    return {
        name: Extent(
            rows=int(str(each["rows"])),
            sum=int(str(each["sum"]), 16),
            last=read_key(tables[name], str(each["last"])),
        )
        for name, each in list_progress(tx).items()
    }


@writing
def _begin_anew(tx: Transaction) -> None:
    tx.sql.delete_all(tx.conn, list_tables())
    forget_progress(tx)


@writing
def _add_page(tx: Transaction, table: Table, page: CopiedPage, extent: Extent) -> None:
    """Add rows, and write in the same transaction that they are there."""
    tx.sql.restore_rows(tx.conn, table, page.rows)
    progress = {"rows": extent.rows, "sum": f"{extent.sum:x}", "last": write_key(page.last)}
    put_progress(tx, table.name, progress)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Numbers:
    """What a database has given out so far: numbers of counters, and keys of tables."""

    counters: Mapping[NumberSource, int]
    keys: Mapping[str, int]


def _numbers(tx: Transaction) -> _Numbers:
    return _Numbers(
        counters={each: tx.sql.last_number(tx.conn, each) for each in NumberSource},
        keys={table.name: tx.sql.last_key(tx.conn, table) for table in _numbered_tables()},
    )


def _numbered_tables() -> tuple[Table, ...]:
    return tuple(table for table in list_tables() if table.autoincrement_column is not None)


@writing
def _finish(tx: Transaction, numbers: _Numbers, revision: str) -> None:
    """Let numbers go on where the source is, and let the target be used."""
    for counter, number in numbers.counters.items():
        tx.sql.set_last_number(tx.conn, counter, number)
    for table in _numbered_tables():
        tx.sql.set_last_key(tx.conn, table, numbers.keys[table.name])
    tx.sql.take_statistics(tx.conn, list_tables())
    end_copy(tx)
    become_current(tx, revision)
