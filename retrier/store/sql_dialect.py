"""Where PostgreSQL and SQLite differ: locks, numbers, time, upserts, array parameters."""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from sqlalchemy import Connection, Table, Text, any_, bindparam, func, select, text, true
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.sql import ColumnElement

from retrier.store.patience import PatientConnection
from retrier.store.schema import counters

READING = "retrier_reading"
"""The execution option by which SQLite is told to begin without the write lock."""

_FAILURE_SEQ = "failure_seq"
# Any two numbers that nothing else on the database uses; they name the cut-off lock.
_CUT_OFF_LOCK = "7263, 1"

REQUESTS = "retrier_requests"
"""The channel on which PostgreSQL tells every process that something was asked for."""


class SqlDialect(ABC):
    """What the store's verbs ask a database for in its own words."""

    reading: Mapping[str, Any]
    """Execution options of a transaction that reads: one view of the data for all it asks."""

    @abstractmethod
    def now(self, conn: Connection) -> datetime:
        """Return the database's clock, which all instances share."""

    @abstractmethod
    def next_failure_seqs(self, conn: Connection, count: int) -> list[int]:
        """Take so many new failure numbers, ascending."""

    @abstractmethod
    def last_failure_seq(self, conn: Connection) -> int:
        """Return the highest failure number taken so far."""

    @abstractmethod
    def share_cut_off(self, conn: Connection) -> None:
        """Hold off cut-offs until this transaction's failure numbers are committed."""

    @abstractmethod
    def take_cut_off(self, conn: Connection) -> None:
        """Wait until all failure numbers taken are committed, and let none be taken meanwhile."""

    @abstractmethod
    def take_time(self, conn: Connection) -> None:
        """Let this transaction last as long as it likes, also where it waits for others."""

    @abstractmethod
    def lock_table(self, conn: Connection, table: Table) -> None:
        """Let nobody else change the table before this transaction ends; reading goes on."""

    @abstractmethod
    def announce_request(self, conn: Connection) -> None:
        """Wake the processor, wherever it runs, when this transaction is committed."""

    @abstractmethod
    def insert(self, table: Table) -> Any:
        """Return an insert that knows ON CONFLICT."""

    @abstractmethod
    def insert_texts(self, table: Table, columns: Mapping[str, Sequence[str]]) -> Any:
        """Return an insert of many rows of text, given by column; it knows ON CONFLICT."""

    @abstractmethod
    def member(self, column: ColumnElement[Any], values: Sequence[str]) -> ColumnElement[bool]:
        """Test whether a column is one of the values."""


class PostgresDialect(SqlDialect):
    """PostgreSQL: rows are locked, numbers come from a sequence and may commit out of order."""

    # By default every statement would see what others have committed since the one before.
    reading = MappingProxyType({"isolation_level": "REPEATABLE READ", "postgresql_readonly": True})

    def now(self, conn: Connection) -> datetime:
        """Return the server's clock, not the start of the transaction."""
        moment: datetime = conn.execute(select(func.clock_timestamp())).scalar_one()
        return moment

    def next_failure_seqs(self, conn: Connection, count: int) -> list[int]:
        """Take numbers from the sequence, behind the lock that a cut-off waits for."""
        self.share_cut_off(conn)
        query = text("SELECT nextval('failure_seq') FROM generate_series(1, :count)")
        return sorted(conn.execute(query, {"count": count}).scalars())

    def last_failure_seq(self, conn: Connection) -> int:
        """Read the sequence; 0 before its first use."""
        query = "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM failure_seq"
        return int(conn.execute(text(query)).scalar_one())

    def share_cut_off(self, conn: Connection) -> None:
        """Take the shared lock; it goes with the transaction."""
        conn.execute(text(f"SELECT pg_advisory_xact_lock_shared({_CUT_OFF_LOCK})"))

    def take_cut_off(self, conn: Connection) -> None:
        """Take the exclusive lock; it goes with the transaction."""
        conn.execute(text(f"SELECT pg_advisory_xact_lock({_CUT_OFF_LOCK})"))

    def take_time(self, conn: Connection) -> None:
        """Lift every limit; the connection is closed afterwards, and nobody else gets it."""
        conn.execute(text("SET LOCAL lock_timeout = 0; SET LOCAL statement_timeout = 0"))
        conn.detach()
        driver = conn.connection.driver_connection
        if isinstance(driver, PatientConnection):
            driver.patience = None

    def lock_table(self, conn: Connection, table: Table) -> None:
        """Take the weakest lock that conflicts with itself and with every write."""
        conn.execute(text(f"LOCK TABLE {table.name} IN SHARE ROW EXCLUSIVE MODE"))

    def announce_request(self, conn: Connection) -> None:
        """Notify; the server keeps it back until the commit, and drops it with a rollback."""
        conn.execute(select(func.pg_notify(REQUESTS, "")))

    def insert(self, table: Table) -> postgresql.Insert:
        """Return PostgreSQL's insert."""
        return postgresql.insert(table)

    def insert_texts(self, table: Table, columns: Mapping[str, Sequence[str]]) -> postgresql.Insert:
        """Send one array for each column, and not one parameter for each value."""
        arrays = [bindparam(None, list(values), type_=ARRAY(Text)) for values in columns.values()]
        rows = select(*(func.unnest(array) for array in arrays))
        return postgresql.insert(table).from_select(list(columns), rows)

    def member(self, column: ColumnElement[Any], values: Sequence[str]) -> ColumnElement[bool]:
        """Send one array instead of a thousand parameters."""
        array = bindparam(None, list(values), type_=ARRAY(Text))
        return column == any_(array)


class SqliteDialect(SqlDialect):
    """SQLite: one writer at a time, so BEGIN IMMEDIATE is every lock there is."""

    reading = MappingProxyType({READING: True})

    def now(self, conn: Connection) -> datetime:
        """Return this machine's clock, as SQLite reads it."""
        moment = conn.execute(text("SELECT strftime('%Y-%m-%d %H:%M:%f', 'now')")).scalar_one()
        return datetime.fromisoformat(moment).replace(tzinfo=UTC)

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

    def take_time(self, conn: Connection) -> None:
        """Nothing: no statement is limited, and a file answers."""

    def lock_table(self, conn: Connection, table: Table) -> None:
        """Nobody else can write anything."""

    def announce_request(self, conn: Connection) -> None:
        """Do nothing: other processes look once a second."""

    def insert(self, table: Table) -> sqlite.Insert:
        """Return SQLite's insert."""
        return sqlite.insert(table)

    def insert_texts(self, table: Table, columns: Mapping[str, Sequence[str]]) -> sqlite.Insert:
        """Send one JSON array of rows."""
        rows = func.json_each(json.dumps(list(zip(*columns.values(), strict=True))))
        row = rows.table_valued("value").c.value
        values = (func.json_extract(row, f"$[{place}]") for place in range(len(columns)))
        # SQLite would take ON CONFLICT for a join's condition if there were no WHERE before it.
        return sqlite.insert(table).from_select(list(columns), select(*values).where(true()))

    def member(self, column: ColumnElement[Any], values: Sequence[str]) -> ColumnElement[bool]:
        """Send one JSON array: a received batch may have more ids than a statement parameters."""
        member = func.json_each(json.dumps(list(values))).table_valued("value")
        return column.in_(select(member.c.value))
