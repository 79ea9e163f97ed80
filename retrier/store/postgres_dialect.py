"""What PostgreSQL is asked in its own words."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any

from sqlalchemy import (
    BindParameter,
    Connection,
    DateTime,
    Interval,
    Table,
    any_,
    bindparam,
    func,
    literal,
    select,
    text,
    true,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.sql import ColumnElement

from retrier.store.copy_in import copy_in
from retrier.store.patience import Meanwhile, PatientConnection
from retrier.store.sql_dialect import REQUESTS, SqlDialect
from retrier.store.text_arrays import TextArray

_CLOCK = func.clock_timestamp(type_=DateTime(timezone=True))
# Any two numbers that nothing else on the database uses; they name the cut-off lock.
_CUT_OFF_LOCK = "7263, 1"
_BY_INDEX = select(
    func.set_config("enable_seqscan", "off", true()),
    func.set_config("enable_bitmapscan", "off", true()),
)


class PostgresDialect(SqlDialect):
    """PostgreSQL: rows are locked, numbers come from a sequence and may commit out of order."""

    # By default every statement would see what others have committed since the one before.
    reading = MappingProxyType({"isolation_level": "REPEATABLE READ", "postgresql_readonly": True})
    writes_in_queries = True

    def now(self, conn: Connection) -> datetime:
        """Return the server's clock, not the start of the transaction."""
        moment: datetime = conn.execute(select(func.clock_timestamp())).scalar_one()
        return moment

    # The statement that writes them reads the clock: one question less.
    moments = (_CLOCK, _CLOCK + bindparam("later", type_=Interval))

    def tell(self, conn: Connection, later: timedelta) -> Mapping[str, object]:  # noqa: ARG002 - the other one asks
        """Say how much later."""
        return {"later": later}

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

    def go_by_index(self, conn: Connection) -> None:
        """Forbid to read tables in the order in which their rows lie.

        Whatever the statistics say: a table may have grown a lot since they were made.
        """
        conn.execute(_BY_INDEX)

    @contextmanager
    def using_waits(self, conn: Connection, meanwhile: Meanwhile | None) -> Iterator[None]:
        """Have it done whenever an answer is not there yet."""
        driver = conn.connection.driver_connection
        if not isinstance(driver, PatientConnection):
            yield
            return
        driver.meanwhile = meanwhile
        try:
            yield
        finally:
            driver.meanwhile = None

    def take_time(self, conn: Connection) -> None:
        """Lift every limit; the connection is closed afterwards, and nobody else gets it."""
        for limit in ("lock_timeout", "statement_timeout"):
            conn.execute(text(f"SET LOCAL {limit} = 0"))
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

    def add_rows(self, conn: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
        """Copy them in."""
        copy_in(conn, table, rows)

    def insert_texts(
        self, table: Table, columns: Mapping[str, Sequence[str]], same: Mapping[str, str]
    ) -> postgresql.Insert:
        """Send one array for each column, and not one parameter for each value."""
        arrays = [self.texts(None, values) for values in columns.values()]
        rows = select(*map(func.unnest, arrays), *map(literal, same.values()))
        return postgresql.insert(table).from_select([*columns, *same], rows)

    def texts(self, name: str | None, values: Sequence[str] | None = None) -> BindParameter[Any]:
        """Send one array instead of a thousand parameters."""
        return bindparam(name, values, type_=TextArray)

    def among(self, column: ColumnElement[Any], texts: BindParameter[Any]) -> ColumnElement[bool]:
        """Compare with an array."""
        return column == any_(texts)


POSTGRES = PostgresDialect()
