"""The database: its engine, and how a verb becomes a transaction."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import (
    DataError,
    DBAPIError,
    IntegrityError,
    InterfaceError,
    OperationalError,
    StatementError,
)

from retrier.errors import DatabaseUnavailable, DataRefused
from retrier.store.sql_dialect import PostgresDialect, SqlDialect, SqliteDialect

T = TypeVar("T")

_READ_ONLY = "retrier_read_only"
_TRIES = 10
# Deadlock detected, serialization failure, lock timeout: the transaction did nothing; do it again.
_TRANSIENT_STATES = frozenset({"40P01", "40001", "55P03"})
# A value too large for an index comes as an operational error, but it is the data's fault.
_PROGRAM_LIMIT = "54000"
_UNDEFINED_TABLE = "42P01"
_BUSY_WORDS = ("database is locked", "database table is locked")


class ConcurrentChange(Exception):
    """Another transaction got in between; this one is done again from the start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseOptions:
    """How to connect. `lease` bounds a statement (half of it) and an idle transaction (a third)."""

    url: str
    lease: timedelta = timedelta(seconds=15)
    connect_timeout: timedelta = timedelta(seconds=5)


class Database:
    """An engine and its dialect; hands verbs a connection inside a transaction."""

    def __init__(self, options: DatabaseOptions) -> None:
        self._url = make_url(options.url)
        self.is_sqlite = self._url.get_backend_name() == "sqlite"
        self.sql: SqlDialect = SqliteDialect() if self.is_sqlite else PostgresDialect()
        self.engine = _sqlite(options) if self.is_sqlite else _postgres(options)
        self._pause = threading.Event()

    @property
    def place(self) -> str:
        """Where the database is, without user or password."""
        if self.is_sqlite:
            return str(self._url.database)
        return f"{self._url.host or 'local socket'}:{self._url.port or 5432}/{self._url.database}"

    def transact(self, verb: Callable[[Connection], T]) -> T:
        """Run the verb in one transaction that writes.

        Deadlocks, serialization failures and a busy SQLite are tried again. Raises
        DatabaseUnavailable, or DataRefused when a row's data is the reason.
        """
        for attempt in range(_TRIES):
            try:
                with self.engine.begin() as conn:
                    return verb(conn)
            except ConcurrentChange:
                continue
            except DBAPIError as error:
                if not _is_transient(error):
                    raise self._translate(error) from error
                # Two that collided must not collide again in step; not a wait inside a transaction.
                self._pause.wait(0.01 * attempt)
            except (StatementError, UnicodeError, OverflowError) as error:
                raise DataRefused(str(error)) from error
        raise DatabaseUnavailable(f"the database at {self.place} stayed busy for {_TRIES} tries")

    def read(self, verb: Callable[[Connection], T]) -> T:
        """Run the verb on one consistent view, without any lock. Raises DatabaseUnavailable."""
        try:
            with (
                self.engine.connect().execution_options(**{_READ_ONLY: True}) as conn,
                conn.begin(),
            ):
                return verb(conn)
        except DBAPIError as error:
            raise self._translate(error) from error

    def dispose(self) -> None:
        """Close all connections."""
        self.engine.dispose()

    def _translate(self, error: DBAPIError) -> Exception:
        words = str(error.orig).strip().splitlines()
        first = words[0] if words else type(error.orig).__name__
        too_large = getattr(error.orig, "sqlstate", None) == _PROGRAM_LIMIT
        if too_large or isinstance(error, DataError | IntegrityError):
            return DataRefused(first)
        if _lacks_tables(error):
            return DatabaseUnavailable(f"the database at {self.place} has no tables yet: {first}")
        if isinstance(error, OperationalError | InterfaceError) or error.connection_invalidated:
            return DatabaseUnavailable(f"cannot reach the database at {self.place}: {first}")
        return error


def _is_transient(error: DBAPIError) -> bool:
    state = getattr(error.orig, "sqlstate", None)
    return state in _TRANSIENT_STATES or any(word in str(error.orig) for word in _BUSY_WORDS)


def _lacks_tables(error: DBAPIError) -> bool:
    state = getattr(error.orig, "sqlstate", None)
    return state == _UNDEFINED_TABLE or "no such table" in str(error.orig)


def _postgres(options: DatabaseOptions) -> Engine:
    lease_ms = int(options.lease.total_seconds() * 1000)
    settings = {
        # A role or database set to "off" would lose acknowledged failures in a server crash.
        "synchronous_commit": "on",
        "lock_timeout": lease_ms // 3,
        # A frozen leader inside a transaction would block its successor for ever without this.
        "idle_in_transaction_session_timeout": lease_ms // 3,
        "statement_timeout": lease_ms // 2,
    }
    connect_args: dict[str, Any] = {
        "connect_timeout": int(options.connect_timeout.total_seconds()),
        "options": " ".join(f"-c {name}={value}" for name, value in settings.items()),
        "application_name": "retrier",
        "keepalives_idle": 5,
        "keepalives_interval": 2,
        "keepalives_count": 3,
    }
    return create_engine(
        options.url,
        connect_args=connect_args,
        pool_pre_ping=True,
        pool_size=10,
        hide_parameters=True,
    )


def _sqlite(options: DatabaseOptions) -> Engine:
    database = make_url(options.url).database
    if database:
        Path(database).parent.mkdir(parents=True, exist_ok=True)
    engine = create_engine(options.url, connect_args={"timeout": 30}, hide_parameters=True)
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: Any, _record: object) -> None:
    # The driver must not begin transactions by itself: it would begin them without the write lock.
    connection.isolation_level = None
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(conn: Connection) -> None:
    read_only = conn.get_execution_options().get(_READ_ONLY, False)
    conn.exec_driver_sql("BEGIN" if read_only else "BEGIN IMMEDIATE")
