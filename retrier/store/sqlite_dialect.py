"""What SQLite is asked in its own words."""

import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any

from sqlalchemy import (
    BindParameter,
    Connection,
    Table,
    bindparam,
    func,
    literal,
    select,
    text,
    true,
)
from sqlalchemy.dialects import sqlite
from sqlalchemy.sql import ColumnElement

from retrier.store.patience import Meanwhile
from retrier.store.schema import counters
from retrier.store.schema.types import UtcTime
from retrier.store.sql_dialect import READING, SqlDialect
from retrier.store.text_arrays import JsonTexts

_FAILURE_SEQ = "failure_seq"


class SqliteDialect(SqlDialect):
    """SQLite: one writer at a time, so BEGIN IMMEDIATE is every lock there is."""

    reading = MappingProxyType({READING: True})
    writes_in_queries = False

    def now(self, conn: Connection) -> datetime:
        """Return this machine's clock, as SQLite reads it."""
        moment = conn.execute(text("SELECT strftime('%Y-%m-%d %H:%M:%f', 'now')")).scalar_one()
        return datetime.fromisoformat(moment).replace(tzinfo=UTC)

    moments = (bindparam("now", type_=UtcTime), bindparam("later", type_=UtcTime))

    def tell(self, conn: Connection, later: timedelta) -> Mapping[str, object]:
        """Read the clock first: times are text here, with which SQLite cannot reckon."""
        now = self.now(conn)
        return {"now": now, "later": now + later}

    def next_failure_seqs(self, conn: Connection, count: int) -> list[int]:
        """Count up the row that stands for the sequence."""
        last = conn.execute(
            sqlite.insert(counters)
            .values(name=_FAILURE_SEQ, value=count)
            .on_conflict_do_update(
                index_elements=["name"], set_={"value": counters.c.value + count}
            )
            .returning(counters.c.value)
        ).scalar_one()
        return list(range(last - count + 1, last + 1))

    def last_failure_seq(self, conn: Connection) -> int:
        """Read the row that stands for the sequence; 0 before its first use."""
        query = select(counters.c.value).where(counters.c.name == _FAILURE_SEQ)
        return conn.execute(query).scalar_one_or_none() or 0

    def share_cut_off(self, conn: Connection) -> None:
        """Nothing: BEGIN IMMEDIATE lets one transaction write at a time."""

    def take_cut_off(self, conn: Connection) -> None:
        """Nothing: BEGIN IMMEDIATE lets one transaction write at a time."""

    def go_by_index(self, conn: Connection) -> None:
        """Nothing: whoever writes is alone, and it knows no other way where there is an index."""

    def using_waits(
        self,
        conn: Connection,  # noqa: ARG002 - the other one has waits
        meanwhile: Meanwhile | None,  # noqa: ARG002 - the other one has waits
    ) -> AbstractContextManager[None]:
        """Do nothing: the database is at work in this very thread."""
        return nullcontext()

    def take_time(self, conn: Connection) -> None:
        """Nothing: no statement is limited, and a file answers."""

    def lock_table(self, conn: Connection, table: Table) -> None:
        """Nobody else can write anything."""

    def announce_request(self, conn: Connection) -> None:
        """Do nothing: other processes look once a second."""

    def insert(self, table: Table) -> sqlite.Insert:
        """Return SQLite's insert."""
        return sqlite.insert(table)

    def add_rows(self, conn: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
        """Insert them one after the other, in one call of the driver."""
        conn.execute(table.insert(), rows)

    def insert_texts(
        self, table: Table, columns: Mapping[str, Sequence[str]], same: Mapping[str, str]
    ) -> sqlite.Insert:
        """Send one JSON array of rows."""
        rows = func.json_each(json.dumps(list(zip(*columns.values(), strict=True))))
        row = rows.table_valued("value").c.value
        values = (func.json_extract(row, f"$[{place}]") for place in range(len(columns)))
        # SQLite would take ON CONFLICT for a join's condition if there were no WHERE before it.
        rows_made = select(*values, *map(literal, same.values())).where(true())
        return sqlite.insert(table).from_select([*columns, *same], rows_made)

    def texts(self, name: str | None, values: Sequence[str] | None = None) -> BindParameter[Any]:
        """Send one JSON array: a received batch may have more ids than a statement parameters."""
        return bindparam(name, values, type_=JsonTexts)

    def among(self, column: ColumnElement[Any], texts: BindParameter[Any]) -> ColumnElement[bool]:
        """Take the array apart."""
        return column.in_(select(func.json_each(texts).table_valued("value").c.value))


SQLITE = SqliteDialect()
