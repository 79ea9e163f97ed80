"""The SQL dialect of PostgreSQL, and the conversion of its `uuid` from and to text."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any
from zlib import crc32

import psycopg
from psycopg.adapt import Buffer, Dumper, Loader
from psycopg.pq import Format
from psycopg.types.json import Jsonb
from psycopg.types.string import BytesBinaryDumper, TextLoader
from sqlalchemy import (
    BindParameter,
    Connection,
    DateTime,
    FromClause,
    Insert,
    Interval,
    Select,
    Table,
    any_,
    bindparam,
    func,
    literal,
    select,
    text,
    true,
)
from sqlalchemy import Sequence as NumberedBy
from sqlalchemy.dialects import postgresql
from sqlalchemy.sql import ColumnElement

from retrier.overlap import WhileInFlight, nothing_else
from retrier.store.engine.sessions import PLANS, TimedConnection
from retrier.store.engine.sql_dialect import (
    EVENTS,
    READING,
    REQUESTS,
    Columns,
    Moment,
    NumberSource,
    SqlDialect,
    array_like,
)
from retrier.store.engine.transaction import copy_in
from retrier.store.schema.types import is_json

_UUID = psycopg.adapters.types["uuid"].oid


class _IdLoader(Loader):
    """Loads a binary `uuid` (16 bytes) as text."""

    format = Format.BINARY

    def load(self, data: Buffer) -> str:
        digits = bytes(data).hex()
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


class _IdDumper(Dumper):
    """Dumps text as a binary `uuid` (16 bytes): binary COPY accepts nothing else."""

    format = Format.BINARY
    oid = _UUID

    def dump(self, obj: str) -> bytes:
        return bytes.fromhex(obj.replace("-", ""))


def read_ids_as_text(connection: psycopg.Connection[Any]) -> None:
    """Make a connection load ids as text, and copy them in from text.

    By default psycopg makes an object of each id, which we would turn into text again. And bytes are
    copied in as they are: psycopg would look at each first, whether it is a wrapper of its own.
    """
    connection.adapters.register_loader("uuid", TextLoader)
    connection.adapters.register_loader("uuid", _IdLoader)
    connection.adapters.register_dumper(None, _IdDumper)
    connection.adapters.register_dumper(None, BytesBinaryDumper)


_CLOCK = func.clock_timestamp(type_=DateTime(timezone=True))
# The keys of locks: two numbers that nothing else in the database uses; 2 is that of upgrades.
_CUT_OFF_LOCK = "7263, 1"
# From the rows of the lock: no number is taken before the lock is there.
_TAKE_SHARED = text(
    f"WITH held AS MATERIALIZED (SELECT pg_advisory_xact_lock_shared({_CUT_OFF_LOCK})) "  # noqa: S608 - a name of ours
    f"SELECT nextval('{NumberSource.FAILURE_SEQ}') FROM held"
)
_NO_SCANS = (
    "set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true)"
)
_TAKE_BY_INDEX = text(
    f"WITH held AS MATERIALIZED (SELECT pg_advisory_xact_lock_shared({_CUT_OFF_LOCK})) "  # noqa: S608 - a name of ours
    f"SELECT nextval('{NumberSource.FAILURE_SEQ}'), {_NO_SCANS} FROM held"
)
_SHARE = text(f"SELECT pg_advisory_xact_lock_shared({_CUT_OFF_LOCK})")
_SHARE_BY_INDEX = text(f"SELECT pg_advisory_xact_lock_shared({_CUT_OFF_LOCK}), {_NO_SCANS}")
_MAKE_STANDING = text("SELECT pg_try_advisory_xact_lock(7263, 3)")
# A first number of its own: the second is any number.
_RESERVE_KEY = text("SELECT pg_advisory_xact_lock(7264, CAST(:checksum AS integer))")
# In the order of their numbers, so that two that want several wait for each other without a deadlock.
_RESERVE_BYTES = text(
    "SELECT pg_advisory_xact_lock(7265, lock) FROM unnest(CAST(:locks AS integer[])) AS lock"
)
_LOCKS_OF_BYTES = 256
"""So many locks there are for all fingerprints: one for each would fill the server's table of locks."""
_TAKE = {
    counter: text(f"SELECT nextval('{counter}') FROM generate_series(1, :count)")  # noqa: S608 - a name of ours
    for counter in NumberSource
}
_LAST = {
    counter: text(f"SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM {counter}")  # noqa: S608 - a name of ours
    for counter in NumberSource
}
_WRITERS = text(
    "SELECT virtualtransaction FROM pg_locks WHERE locktype = 'relation' AND mode = "
    "'RowExclusiveLock' AND granted AND relation = CAST(:table AS regclass) AND database = "
    "(SELECT oid FROM pg_database WHERE datname = current_database())"
)
_BY_INDEX = text(f"SELECT {_NO_SCANS}")
_READ_ONCE = text("SELECT set_config('enable_nestloop', 'off', true)")
_PLAN_ONCE = text(f"SELECT set_config('plan_cache_mode', 'force_generic_plan', true), {_NO_SCANS}")
_PLAN_EACH = text(f"SELECT set_config('plan_cache_mode', '{PLANS}', true)")
_FEW = 10
"""So many rows are checked with a plan each in less time than two round trips take."""


_SESSIONS = text(
    "SELECT coalesce(host(client_addr), 'this machine, process ' || pid) FROM pg_stat_activity "
    "WHERE datname = current_database() AND application_name = 'retrier' "
    "AND pid <> pg_backend_pid() ORDER BY 1"
)
_SEQUENCE = text("SELECT pg_get_serial_sequence(:table, :key)")
_GO_ON = text("SELECT setval(CAST(:sequence AS regclass), :number)")


def _numbered(table: Table) -> Mapping[str, str]:
    (key,) = table.primary_key.columns
    return {"table": _quoted(table), "key": key.name}


def _quoted(table: Table) -> str:
    return f'"{table.name}"'


@contextmanager
def _checked_by_one_plan(conn: Connection, table: Table, count: int) -> Iterator[None]:
    """Let the server look up the foreign keys of many rows with one plan.

    A session of ours has every statement planned for its values, and such a look-up is a statement:
    planned anew for each row it took a quarter of the server's time for a failure. The session keeps
    the plan, so it has to go by the index, however small the other table may be now.
    """
    if count < _FEW or not table.foreign_keys:
        yield
        return
    conn.execute(_PLAN_ONCE)
    yield
    # After an error the transaction can only end, and this ends with it.
    conn.execute(_PLAN_EACH)


class PostgresDialect(SqlDialect):
    """PostgreSQL: rows are locked, numbers come from a sequence and may commit out of order."""

    reading = MappingProxyType({READING: True})
    restructuring = MappingProxyType[str, Any]({})
    keeps_counts = True
    marks_at_once = True

    def now(self, conn: Connection) -> datetime:
        """Return the server's clock, not the start of the transaction."""
        moment: datetime = conn.execute(select(func.clock_timestamp())).scalar_one()
        return moment

    # The statement that writes them reads the clock: this saves a round trip.
    moments = (_CLOCK, _CLOCK + bindparam("later", type_=Interval))

    def tell(self, conn: Connection, later: timedelta) -> Mapping[str, object]:  # noqa: ARG002 - SQLite uses it
        """Return how much later `moments[1]` is."""
        return {"later": later}

    def minute_of(self, moment: Moment) -> Moment:
        """Truncate the time."""
        return func.date_trunc("minute", moment, type_=moment.type)

    def take_numbers(self, conn: Connection, counter: NumberSource, count: int) -> list[int]:
        """Take numbers from the sequence."""
        # All at once: the driver fetches row by row in Python what is only iterated.
        return sorted(conn.execute(_TAKE[counter], {"count": count}).scalars().all())

    def last_number(self, conn: Connection, counter: NumberSource) -> int:
        """Read the sequence; 0 before its first use."""
        return int(conn.execute(_LAST[counter]).scalar_one())

    def share_cut_off(self, conn: Connection, *, by_index: bool = False) -> None:
        """Take the shared lock; it ends with the transaction."""
        conn.execute(_SHARE_BY_INDEX if by_index else _SHARE)

    def take_entry_number(self, conn: Connection, *, by_index: bool = False) -> int:
        """Take the shared lock, then the number, in one round trip."""
        return int(conn.execute(_TAKE_BY_INDEX if by_index else _TAKE_SHARED).scalar_one())

    def take_cut_off(self, conn: Connection) -> None:
        """Take the exclusive lock; it ends with the transaction."""
        conn.execute(text(f"SELECT pg_advisory_xact_lock({_CUT_OFF_LOCK})"))

    def reserve_key(self, conn: Connection, key: str) -> None:
        """Take a lock that ends with the transaction; keys with the same checksum share it."""
        checksum = crc32(key.encode()) - 2**31  # signed, as PostgreSQL's numbers are
        conn.execute(_RESERVE_KEY, {"checksum": checksum})

    def reserve_bytes(self, conn: Connection, fingerprints: Collection[str]) -> None:
        """Take the lock under which each fingerprint falls; it ends with the transaction."""
        locks = sorted({crc32(each.encode()) % _LOCKS_OF_BYTES for each in fingerprints})
        conn.execute(_RESERVE_BYTES, {"locks": locks})

    def makes_standing(self, conn: Connection) -> bool:
        """Take a lock that ends with the transaction, if nobody has it."""
        return bool(conn.execute(_MAKE_STANDING).scalar_one())

    def force_index_order(self, conn: Connection) -> None:
        """Forbid scans that return rows in the order in which they lie in the table.

        The planner may choose them when a table has grown since its statistics were made.
        """
        conn.execute(_BY_INDEX)

    def read_once_in_joins(self, conn: Connection) -> None:
        """Forbid loops over one side of a join for each row of the other.

        A table that was empty when the server looked at it last has one row, the planner assumes until
        the server looks again, a minute later or more. It then counts a table anew for each row.
        """
        conn.execute(_READ_ONCE)

    def beside(self, rows: FromClause, query: Select[Any]) -> tuple[FromClause, Columns]:
        """Join it with LATERAL."""
        found = query.lateral("beside")
        return rows.join(found, true()), found.c

    @contextmanager
    def using_waits(self, conn: Connection, while_in_flight: WhileInFlight) -> Iterator[None]:
        """Call `while_in_flight` for as long as an answer has not arrived."""
        driver = conn.connection.driver_connection
        if not isinstance(driver, TimedConnection):
            yield
            return
        driver.while_in_flight = while_in_flight
        try:
            yield
        finally:
            driver.while_in_flight = nothing_else

    def without_timeouts(self, conn: Connection, lock: str) -> None:
        """Lift every limit; detached, the connection is closed afterwards and not used again."""
        for limit in ("lock_timeout", "statement_timeout"):
            conn.execute(text(f"SET LOCAL {limit} = 0"))
        conn.detach()
        driver = conn.connection.driver_connection
        if isinstance(driver, TimedConnection):
            driver.answer_timeout = None
        conn.execute(text(f"SELECT pg_advisory_xact_lock({lock})"))

    def find_strays(self, conn: Connection) -> frozenset[str]:  # noqa: ARG002 - SQLite uses it
        """Return nothing: PostgreSQL checks every foreign key when a row is written."""
        return frozenset()

    def lock_table(self, conn: Connection, table: Table) -> None:
        """Take the weakest lock that conflicts with itself and with every write."""
        conn.execute(text(f"LOCK TABLE {table.name} IN SHARE ROW EXCLUSIVE MODE"))

    def hold_still(self, conn: Connection, tables: Sequence[Table]) -> None:
        """Take the weakest lock that conflicts with itself and with every write."""
        # What reads for an hour is idle while the other database writes what it has read.
        conn.execute(text("SET LOCAL idle_in_transaction_session_timeout = 0"))
        conn.execute(text("SET LOCAL lock_timeout = '5s'"))
        names = ", ".join(_quoted(table) for table in tables)
        conn.execute(text(f"LOCK TABLE {names} IN SHARE ROW EXCLUSIVE MODE"))

    def find_sessions(self, conn: Connection) -> Sequence[str]:
        """Return the address, or the process id, of each session that says it is ours."""
        return conn.execute(_SESSIONS).scalars().all()

    def size_of(self, column: ColumnElement[Any]) -> ColumnElement[int]:
        """Return the number of bytes, which is stored beside the value."""
        return func.octet_length(column)

    def restore_rows(
        self, conn: Connection, table: Table, rows: Sequence[Mapping[str, Any]]
    ) -> None:
        """Add them by COPY; the text of JSON goes in as it is."""
        documents = [each.name for each in table.columns if is_json(each) and each.name in rows[0]]
        wrapped = {
            name: [None if row[name] is None else Jsonb(row[name], dumps=str) for row in rows]
            for name in documents
        }
        columns = [
            dict(zip(wrapped, each, strict=True)) for each in zip(*wrapped.values(), strict=True)
        ]
        full = [{**row, **own} for row, own in zip(rows, columns, strict=True)] if wrapped else rows
        with _checked_by_one_plan(conn, table, len(full)):
            copy_in(conn, table, full)

    def delete_all(self, conn: Connection, tables: Sequence[Table]) -> None:
        """Truncate them together: no table that is left out may refer to them."""
        conn.execute(text(f"TRUNCATE {', '.join(_quoted(table) for table in tables)}"))

    def set_last_number(self, conn: Connection, counter: NumberSource, number: int) -> None:
        """Set the sequence; at 0 it has not been used."""
        if number:
            conn.execute(_GO_ON, {"sequence": counter, "number": number})

    def last_key(self, conn: Connection, table: Table) -> int:
        """Read the sequence that belongs to the key."""
        sequence = conn.execute(_SEQUENCE, _numbered(table)).scalar_one()
        last = f"SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM {sequence}"  # noqa: S608 - the server's own quoted name
        return int(conn.execute(text(last)).scalar_one())

    def set_last_key(self, conn: Connection, table: Table, key: int) -> None:
        """Set the sequence that belongs to the key; at 0 it has not been used."""
        if key:
            sequence = conn.execute(_SEQUENCE, _numbered(table)).scalar_one()
            conn.execute(_GO_ON, {"sequence": sequence, "number": key})

    def take_statistics(self, conn: Connection, tables: Sequence[Table]) -> None:
        """Analyze them: autovacuum would do it within minutes, and plans are bad until then."""
        for table in tables:
            conn.execute(text(f"ANALYZE {_quoted(table)}"))

    def give_back_pages(self, conn: Connection) -> bool:  # noqa: ARG002 - SQLite uses it
        """Do nothing: autovacuum makes room inside the tables, and new rows use it."""
        return False

    def announce_request(self, conn: Connection) -> None:
        """Notify; the server delivers it at the commit, and drops it at a rollback."""
        conn.execute(select(func.pg_notify(REQUESTS, "")))

    @contextmanager
    def only_reading(self, conn: Connection) -> Iterator[None]:  # noqa: ARG002 - SQLite's needs it
        """Do nothing: a transaction that reads is READ ONLY here."""
        yield

    def announcing(self, insert: Insert) -> Insert:
        """Notify with the rows themselves: a statement of its own would be one more round trip."""
        return insert.returning(func.pg_notify(EVENTS, ""))

    def find_writers(self, conn: Connection, table: Table | NumberedBy) -> frozenset[str]:
        """Return who holds the lock of an insert: taken before the first id, kept to the end.

        PostgreSQL takes the same lock of a sequence before the first number is taken of it.
        """
        return frozenset(conn.execute(_WRITERS, {"table": table.name}).scalars())

    def insert(self, table: Table) -> postgresql.Insert:
        """Return PostgreSQL's insert."""
        return postgresql.insert(table)

    def add_rows(self, conn: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
        """Add them by COPY."""
        with _checked_by_one_plan(conn, table, len(rows)):
            copy_in(conn, table, rows)

    def add_missing(
        self,
        conn: Connection,
        table: Table,
        columns: Mapping[str, Sequence[Any]],
        same: Mapping[str, Any],
    ) -> None:
        """Send one array for each column."""
        added = self.insert_columns(table, columns, same).on_conflict_do_nothing()
        with _checked_by_one_plan(conn, table, len(next(iter(columns.values())))):
            conn.execute(added)

    def add_numbered(
        self,
        conn: Connection,
        table: Table,
        columns: Mapping[str, Sequence[Any]],
        shown: tuple[ColumnElement[Any], ColumnElement[Any]],
    ) -> Mapping[Any, int]:
        """Let the insert itself return the numbers."""
        added = self.insert_columns(table, columns, {}).on_conflict_do_nothing()
        return {row[0]: row[1] for row in conn.execute(added.returning(*shown)).all()}

    def insert_columns(
        self, table: Table, columns: Mapping[str, Sequence[Any]], same: Mapping[str, Any]
    ) -> postgresql.Insert:
        """Send one array for each column instead of one parameter for each value."""
        shared = [literal(value, table.c[name].type) for name, value in same.items()]
        rows = self.rows_of(columns, table).add_columns(*shared)
        return postgresql.insert(table).from_select([*columns, *same], rows)

    def rows_of(self, columns: Mapping[str, Sequence[Any]], table: Table) -> Select[Any]:
        """Send one array for each column."""
        arrays = {name: self.values(table.c[name], None, each) for name, each in columns.items()}
        return select(*(func.unnest(each).label(name) for name, each in arrays.items()))

    def values(
        self, column: ColumnElement[Any], name: str | None, values: Sequence[Any] | None = None
    ) -> BindParameter[Any]:
        """Send one array instead of a thousand parameters."""
        return bindparam(name, values, type_=array_like(column))

    def among(self, column: ColumnElement[Any], values: BindParameter[Any]) -> ColumnElement[bool]:
        """Compare with an array."""
        return column == any_(values)


POSTGRES = PostgresDialect()
