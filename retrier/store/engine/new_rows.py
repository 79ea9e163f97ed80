"""New rows: inserted with a check for rows of other processes, by COPY on PostgreSQL; new ids."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from os import urandom
from typing import Any

import psycopg
from sqlalchemy import Column, Connection, Table
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import DBAPIError, IntegrityError

from retrier.errors import DataRefused
from retrier.store.engine.refusals import DUPLICATE, state_of
from retrier.store.engine.transaction import ConcurrentChange, Rows, Transaction
from retrier.store.schema.types import Digest, UtcTime, as_bytes, in_utc


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
