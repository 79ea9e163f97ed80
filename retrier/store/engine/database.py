"""The database: its engine, its clock, and decorators that make verbs of functions."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial, wraps
from itertools import zip_longest
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar
from uuid import uuid4

from sqlalchemy import Engine, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from retrier.clock import Clock
from retrier.domain.values import dataclass
from retrier.errors import ConfigurationError, DatabaseUnavailable, DataRefused
from retrier.store.engine.engines import make_postgres, make_sqlite
from retrier.store.engine.narrowing import narrow
from retrier.store.engine.pool import RestingPool
from retrier.store.engine.postgres_dialect import POSTGRES
from retrier.store.engine.refusals import Translator, is_transient
from retrier.store.engine.sessions import is_pooled, make_session_settings
from retrier.store.engine.sql_dialect import SqlDialect
from retrier.store.engine.sqlite_dialect import SQLITE, SqliteFile
from retrier.store.engine.transaction import ConcurrentChange, Transaction

T = TypeVar("T")

_TRIES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseOptions:
    """How to connect.

    `lease` limits a statement (to half of it), a wait for a lock and an idle transaction (to a
    third). `answer_limit`, for read-only users, limits a statement with its waits for locks.
    `connections` is how many stay open at most. PostgreSQL only, except `url` and `connections`.
    """

    url: str
    lease: timedelta = timedelta(seconds=15)
    connect_timeout: timedelta = timedelta(seconds=5)
    answer_limit: timedelta | None = None
    connections: int = 10


class _Counter(threading.local):
    """The name under which this thread counts: a new one for each thread of each process."""

    def __init__(self) -> None:
        self.name = str(uuid4())


class Database:
    """An engine and its SQL dialect; runs verbs, each inside a transaction."""

    def __init__(self, options: DatabaseOptions, file: SqliteFile | None = None) -> None:
        """Make the engine without connecting. Raises ConfigurationError."""
        self._options = options
        self._url = make_url(options.url)
        self.is_sqlite = self._url.get_backend_name() == "sqlite"
        self.sql: SqlDialect = SQLITE if self.is_sqlite else POSTGRES
        self._file = file
        if self.is_sqlite and file is None:
            self._file = SqliteFile(self._url.database or "")
        self._apart: list[Database] = []
        self.said = make_session_settings(options.lease, options.answer_limit)
        """What sessions say for themselves; on PostgreSQL only."""
        try:
            self.engine = self._make_engine(options)
        except ArgumentError as error:
            raise ConfigurationError([f"database.url: {error}"]) from None
        self.place = self._find_place()
        """The file, or all hosts and the database name; without user and password."""
        limit = None if options.answer_limit is None else self.said.statement_limit
        self._translator = Translator(place=self.place, answer_limit=limit)
        self._pause = threading.Event()
        self._counter = _Counter()

    def transact(self, verb: Callable[[Transaction], T]) -> T:
        """Run the verb in one transaction that writes.

        It is tried again after deadlocks, lock timeouts, serialization failures, and while SQLite
        is busy. Raises DatabaseUnavailable, or DataRefused when a row's data is the reason.
        """
        done = self._run(partial(self._begin, {}), verb)
        # A commit to a file that was deleted meanwhile is lost: it must not be acknowledged.
        self._check_file()
        return done

    def restructure(self, verb: Callable[[Transaction], T]) -> T:
        """Run a verb that changes tables, without any time limit. Raises DatabaseUnavailable.

        SQLite changes a table by building a new one and dropping the old one. Foreign keys are off
        meanwhile: the drop would delete the rows that refer to the table (CASCADE), or fail.
        """
        done = self._run(partial(self._begin, self.sql.restructuring), verb)
        self._check_file()
        return done

    def read(self, verb: Callable[[Transaction], T]) -> T:
        """Run the verb on one consistent snapshot, without locks. Raises DatabaseUnavailable."""
        return self._run(partial(self._begin, self.sql.reading), verb)

    def apart(self, connections: int, answer_limit: timedelta | None = None) -> "Database":
        """Return the same database with connections of its own; `dispose` closes them, too.

        Its users cannot use up our connections, and ours cannot make them wait (decision 0021).
        """
        options = replace(self._options, connections=connections, answer_limit=answer_limit)
        self._apart.append(Database(options, self._file))
        return self._apart[-1]

    def narrowed(self, queues: Sequence[str], connections: int = 2) -> "Database":
        """Return the same database for reading, with what belongs to queues of these patterns only.

        It has connections of its own; `dispose` closes them, too.
        """
        narrow_one = self.apart(connections, self._options.answer_limit)
        narrow(narrow_one.engine, queues, is_sqlite=self.is_sqlite)
        return narrow_one

    def is_pooled(self) -> bool:
        """Say whether a pooler stands before the server. Raises DatabaseUnavailable."""
        if self.is_sqlite:
            return False
        return self.read(lambda tx: is_pooled(tx.conn))

    def is_open_elsewhere(self) -> bool:
        """Say whether another process has the SQLite file open; call it before connecting.

        PostgreSQL knows its sessions itself: `SqlDialect.find_sessions`.
        """
        return self._file is not None and self._file.is_open_elsewhere()

    def close_rested(self, rest: timedelta) -> None:
        """Close the connections to PostgreSQL that nobody has used for so long."""
        for other in self._apart:
            other.close_rested(rest)
        if isinstance(self.engine.pool, RestingPool):
            self.engine.pool.close_rested(rest.total_seconds())

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
            said=self.said,
            lease=options.lease,
            connect_timeout=options.connect_timeout,
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
        pairs = zip_longest(hosts, ports)  # a URL without a port has none for any host
        places = ", ".join(f"{host}:{port or 5432}" for host, port in pairs)
        return f"{places}/{self._url.database}"

    @contextmanager
    def _begin(self, options: Mapping[str, Any]) -> Iterator[Transaction]:
        with self.engine.connect().execution_options(**options) as conn, conn.begin():
            yield Transaction(conn, self.sql, self._counter.name)

    def _run(
        self,
        begin: Callable[[], AbstractContextManager[Transaction]],
        verb: Callable[[Transaction], T],
    ) -> T:
        self._check_file()
        for attempt in range(_TRIES):
            try:
                with begin() as tx:
                    return verb(tx)
            except ConcurrentChange:
                continue
            except SQLAlchemyError as error:
                if not is_transient(error):
                    raise self._translator.translate(error) from error
                # Longer each time, or two that collided may collide again. No transaction is open.
                self._pause.wait(0.01 * attempt)
            except (UnicodeError, OverflowError) as error:
                raise DataRefused(str(error)) from error
        raise DatabaseUnavailable(f"the database at {self.place} stayed busy for {_TRIES} tries")


class DatabaseClock:
    """Takes the time of day from the database, and durations from this machine's clock."""

    def __init__(self, db: Database, clock: Clock) -> None:
        self._db = db
        self._clock = clock

    def now(self) -> datetime:
        """Return the time of day of the database, in UTC. Raises DatabaseUnavailable."""
        return self._db.read(lambda tx: tx.now)

    def monotonic(self) -> float:
        """Return seconds from an arbitrary start; never goes back."""
        return self._clock.monotonic()


P = ParamSpec("P")

InTransaction = Callable[Concatenate[Transaction, P], T]
Verb = Callable[Concatenate[Database, P], T]


def writing(body: InTransaction[P, T]) -> Verb[P, T]:
    """Make a verb of it: one transaction that writes, and is tried again after a conflict."""

    @wraps(body)
    def verb(db: Database, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return db.transact(bind(body, *args, **kwargs))

    return verb


def reading(body: InTransaction[P, T]) -> Verb[P, T]:
    """Make a verb of it that reads one consistent snapshot, without locks."""

    @wraps(body)
    def verb(db: Database, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return db.read(bind(body, *args, **kwargs))

    return verb


def bind(
    body: InTransaction[P, T], *args: P.args, **kwargs: P.kwargs
) -> Callable[[Transaction], T]:
    """Bind all arguments but the transaction; the result keeps the name of `body`."""

    @wraps(body)
    def run(tx: Transaction) -> T:
        return body(tx, *args, **kwargs)

    return run
