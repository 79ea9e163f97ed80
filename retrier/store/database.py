"""The database: its engine, and how a verb becomes a transaction."""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import zip_longest
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Connection, Engine, make_url
from sqlalchemy.exc import (
    ArgumentError,
    DatabaseError,
    DataError,
    DBAPIError,
    IntegrityError,
    InterfaceError,
    InternalError,
    OperationalError,
    SQLAlchemyError,
    StatementError,
)
from sqlalchemy.exc import TimeoutError as NoConnectionFree

from retrier.errors import AnswerTooSlow, ConfigurationError, DatabaseUnavailable, DataRefused
from retrier.store.engines import make_postgres, make_sqlite
from retrier.store.postgres_dialect import POSTGRES
from retrier.store.sql_dialect import SqlDialect
from retrier.store.sqlite_dialect import SQLITE
from retrier.store.sqlite_file import SqliteFile

T = TypeVar("T")

_TRIES = 10
# Deadlock detected, serialization failure, lock timeout: the transaction did nothing; do it again.
_TRANSIENT_STATES = frozenset({"40P01", "40001", "55P03"})
# By a statement's time limit, as a rule.
_CANCELLED = "57014"
# Program limits, such as a value too large for an index, come as operational errors, but they are
# the data's fault.
_PROGRAM_LIMITS = "54"
# No such table, no right to it: the database is not what it should be, whatever the statement.
_UNUSABLE_STATES = frozenset({"42P01", "42501"})
_UNUSABLE = (OperationalError, InterfaceError, InternalError)
_BUSY_WORDS = ("database is locked", "database table is locked")


class ConcurrentChange(Exception):
    """Another transaction got in between; this one is done again from the start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseOptions:
    """How to connect.

    `lease` bounds a statement (half of it), a wait for a lock and an idle transaction (a third).
    Where there is an `answer_limit`, that bounds a statement, with its waits for locks: it is
    for who only reads. `connections` are kept open at most.
    """

    url: str
    lease: timedelta = timedelta(seconds=15)
    connect_timeout: timedelta = timedelta(seconds=5)
    answer_limit: timedelta | None = None
    connections: int = 10


class Database:
    """An engine and its dialect; hands verbs a connection inside a transaction."""

    def __init__(self, options: DatabaseOptions, file: SqliteFile | None = None) -> None:
        """Connect to nothing yet. Raises ConfigurationError."""
        self._options = options
        self._url = make_url(options.url)
        self.is_sqlite = self._url.get_backend_name() == "sqlite"
        self.sql: SqlDialect = SQLITE if self.is_sqlite else POSTGRES
        self._file = file
        if self.is_sqlite and file is None:
            self._file = SqliteFile(self._url.database or "")
        self._apart: list[Database] = []
        try:
            self.engine = self._make_engine(options)
        except ArgumentError as error:
            raise ConfigurationError([f"database.url: {error}"]) from None
        self.place = self._find_place()
        """Where it is, without user or password; every host that may be connected to."""
        self._pause = threading.Event()

    def transact(self, verb: Callable[[Connection], T]) -> T:
        """Run the verb in one transaction that writes.

        Deadlocks, serialization failures and a busy SQLite are tried again. Raises
        DatabaseUnavailable, or DataRefused when a row's data is the reason.
        """
        done = self._run(self.engine.begin, verb)
        # What was committed to a file that is deleted meanwhile must not be acknowledged.
        self._check_file()
        return done

    def read(self, verb: Callable[[Connection], T]) -> T:
        """Run the verb on one consistent view, without any lock. Raises DatabaseUnavailable."""
        return self._run(self._begin_reading, verb)

    def apart(self, connections: int, answer_limit: timedelta | None = None) -> "Database":
        """Return the same database with connections of its own, closed together with ours.

        Who uses it can neither take all of ours, nor be kept waiting by who has taken them.
        """
        options = replace(self._options, connections=connections, answer_limit=answer_limit)
        self._apart.append(Database(options, self._file))
        return self._apart[-1]

    def dispose(self) -> None:
        """Close all connections."""
        for other in self._apart:
            other.dispose()
        self.engine.dispose()

    def _make_engine(self, options: DatabaseOptions) -> Engine:
        if self._file is not None:
            return make_sqlite(self._url, self._file, options.connections)
        return make_postgres(
            self._url,
            lease=options.lease,
            connect_timeout=options.connect_timeout,
            answer_limit=options.answer_limit,
            connections=options.connections,
        )

    def _check_file(self) -> None:
        if self._file is not None:
            self._file.check()

    def _find_place(self) -> str:
        if self.is_sqlite:
            return str(Path(self._url.database or "").resolve())
        _, options = self.engine.dialect.create_connect_args(self._url)
        hosts = str(options.get("host") or "local socket").split(",")
        ports = str(options.get("port") or "").split(",")
        pairs = zip_longest(hosts, ports)  # without a port in the URL there is none of any host
        places = ", ".join(f"{host}:{port or 5432}" for host, port in pairs)
        return f"{places}/{self._url.database}"

    @contextmanager
    def _begin_reading(self) -> Iterator[Connection]:
        with self.engine.connect().execution_options(**self.sql.reading) as conn, conn.begin():
            yield conn

    def _run(
        self,
        begin: Callable[[], AbstractContextManager[Connection]],
        verb: Callable[[Connection], T],
    ) -> T:
        self._check_file()
        for attempt in range(_TRIES):
            try:
                with begin() as conn:
                    return verb(conn)
            except ConcurrentChange:
                continue
            except SQLAlchemyError as error:
                if not _is_transient(error):
                    raise self._translate(error) from error
                # Two that collided must not collide again in step; not a wait inside a transaction.
                self._pause.wait(0.01 * attempt)
            except (UnicodeError, OverflowError) as error:
                raise DataRefused(str(error)) from error
        raise DatabaseUnavailable(f"the database at {self.place} stayed busy for {_TRIES} tries")

    def _translate(self, error: SQLAlchemyError) -> Exception:
        match error:
            case DBAPIError():
                return self._translate_from_driver(error)
            case NoConnectionFree():
                return DatabaseUnavailable(f"all connections to {self.place} are in use")
            # What SQLAlchemy itself objects to is our statement; blaming a row would hide that.
            case StatementError(orig=Exception() as cause) if not isinstance(
                cause, SQLAlchemyError
            ):
                return DataRefused(str(cause))
            case _:
                return error

    def _translate_from_driver(self, error: DBAPIError) -> Exception:
        words = str(error.orig).strip().splitlines()
        # The first line only: what follows may quote the data.
        first = words[0] if words else type(error.orig).__name__
        limit = self._options.answer_limit
        if limit is not None and _state(error) == _CANCELLED:
            return AnswerTooSlow(f"no answer from {self.place} within {limit.total_seconds():g} s")
        if _is_refusal(error):
            return DataRefused(first)
        if _is_unusable(error):
            return DatabaseUnavailable(f"cannot reach the database at {self.place}: {first}")
        return error


def _is_transient(error: SQLAlchemyError) -> bool:
    if not isinstance(error, DBAPIError):
        return False
    return _state(error) in _TRANSIENT_STATES or any(
        word in str(error.orig) for word in _BUSY_WORDS
    )


def _is_refusal(error: DBAPIError) -> bool:
    return isinstance(error, DataError | IntegrityError) or _state(error).startswith(
        _PROGRAM_LIMITS
    )


def _is_unusable(error: DBAPIError) -> bool:
    connecting = error.statement is None
    # SQLite tells of a damaged file, or of one that is no database, by the plain class.
    damaged = type(error) is DatabaseError
    unusable = isinstance(error, _UNUSABLE) or _state(error) in _UNUSABLE_STATES
    return connecting or damaged or unusable or error.connection_invalidated


def _state(error: DBAPIError) -> str:
    return getattr(error.orig, "sqlstate", None) or ""
