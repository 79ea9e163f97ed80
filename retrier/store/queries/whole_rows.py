"""All rows of any table, page by page in the order of its key, and a sum that tells them apart."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b
from itertools import accumulate, takewhile
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    LargeBinary,
    Select,
    Table,
    Text,
    cast,
    func,
    literal,
    select,
    tuple_,
)
from sqlalchemy.types import TypeDecorator

from retrier.store.engine.sql_dialect import IN_BINARY
from retrier.store.engine.transaction import Transaction
from retrier.store.schema import counters, metadata
from retrier.store.schema.types import UtcTime, is_json

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

    Without `counters`: numbers are rows on SQLite and sequences on PostgreSQL.
    """
    return tuple(table for table in metadata.sorted_tables if table is not counters)


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

    def and_then(self, page: "Page") -> "Extent":
        """Return the extent of these rows and those of the page behind them."""
        total = sum(_digest(row, page.documents) for row in page.rows)
        return Extent(
            rows=self.rows + len(page.rows), sum=(self.sum + total) % _SUM, last=page.last
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
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
) -> Iterator[Page]:
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


def _read(tx: Transaction, table: Table, after: Key | None, end: Key) -> Page:
    columns = [column for column in table.columns if column.computed is None]
    documents = frozenset(column.name for column in columns if is_json(column))
    read = [
        cast(each, Text).label(each.name) if each.name in documents else each for each in columns
    ]
    query = _between(select(*read), table, after, end).execution_options(**{IN_BINARY: True})
    rows = tx.execute(query).mappings().all()
    return Page(rows=[dict(row) for row in rows], last=end, documents=documents)


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
