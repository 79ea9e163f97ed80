"""Copies a whole database into another one, in transactions of one page each.

The source is held still by one transaction that changes nothing. The target says of itself that it
is unfinished, until all of it was read back and compared: no version of Retrier uses it before. The
key of the last row that was copied is written with each page, so that a copy which was killed goes
on behind it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sqlalchemy import Table, inspect

from retrier.errors import CopyRefused
from retrier.store.engine.database import Database, bind, writing
from retrier.store.engine.sql_dialect import NumberSource
from retrier.store.engine.transaction import Transaction
from retrier.store.queries.verification import VerifiedRule, verify_rows, verify_store
from retrier.store.queries.whole_rows import (
    PAGE,
    Extent,
    Most,
    Page,
    count_rows,
    list_tables,
    measure,
    read_key,
    read_pages,
    write_key,
)
from retrier.store.tables import installation, unfinished_copy
from retrier.store.verbs.upgrade import (
    UNFINISHED,
    become_current,
    become_unfinished,
    lock_upgrades,
    make_schema,
    read_revision,
)

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
        "installation": installation.find(tx) or "none",
        "revision": read_revision(tx).wanted,
    }


def _prepare(target: Database, origin: Mapping[str, str]) -> Extents:
    """Make a target of an empty database, or find how far it is. Raises CopyRefused."""
    return target.restructure(bind(_prepare_target, target.place, origin))


def _prepare_target(tx: Transaction, place: str, origin: Mapping[str, str]) -> Extents:
    lock_upgrades(tx)
    revision = read_revision(tx)
    if revision.current == UNFINISHED:
        if unfinished_copy.find_origin(tx) != origin:
            raise CopyRefused(f"{place} {_NOT_THE_SAME}, or of another version: {_EMPTY_IT}")
        return _find_progress(tx)
    if revision.current is None and not _has_our_tables(tx):
        make_schema(tx, place, revision)
    elif not revision.is_current or _has_rows(tx):
        raise CopyRefused(_why_not_empty(tx, place, origin, is_current=revision.is_current))
    unfinished_copy.begin(tx, origin)
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
    if is_current and installation.find(tx) == origin["installation"]:
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
        for name, each in unfinished_copy.list_progress(tx).items()
    }


@writing
def _begin_anew(tx: Transaction) -> None:
    tx.sql.delete_all(tx.conn, list_tables())
    unfinished_copy.forget_progress(tx)


@writing
def _add_page(tx: Transaction, table: Table, page: Page, extent: Extent) -> None:
    """Add rows, and write in the same transaction that they are there."""
    tx.sql.restore_rows(tx.conn, table, page.rows)
    progress = {"rows": extent.rows, "sum": f"{extent.sum:x}", "last": write_key(page.last)}
    unfinished_copy.put_progress(tx, table.name, progress)


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
    unfinished_copy.end(tx)
    become_current(tx, revision)
