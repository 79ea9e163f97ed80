"""Notifications on PostgreSQL: what one process commits wakes a thread of another."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from threading import Event
from time import monotonic
from uuid import uuid4

import psycopg
from sqlalchemy import func, select
from sqlalchemy.exc import SQLAlchemyError

from retrier.domain.values import dataclass
from retrier.errors import DatabaseUnavailable
from retrier.store.engine.database import Database
from retrier.store.engine.sql_dialect import EVENTS, REQUESTS

_LOOK_AT_STOP = 0.5
_PROVED_WITHIN = 5.0
"""Seconds within which a notification of our own has to arrive."""

WHY_UNHEARD = (
    "a pooler before the database gives each transaction another session; requests of other "
    "processes are looked for once a second"
)

Wait = Callable[[float], None]
"""Waits for so many seconds at most."""


class Unheard(DatabaseUnavailable):
    """The database is reached, but its notifications do not arrive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """What is called by who listens: at each request, and once it is known that they are heard."""

    request: Callable[[], None]
    proved: Callable[[], None]


def listen_for_requests(db: Database, stop: Event, listener: Listener) -> None:
    """Call `listener.request` for each request that any process commits, until `stop` is set.

    Also once at the start, for requests that came before LISTEN. On PostgreSQL only. Raises
    Unheard if notifications do not arrive here, and DatabaseUnavailable when the connection is lost.
    """
    with _listening(db, REQUESTS) as connection:
        listener.request()
        if not _is_heard(db, connection, listener, stop):
            # Behind a pooler the session goes back to others: nobody would hear what it is told.
            connection.execute(f"UNLISTEN {REQUESTS}")
            raise Unheard(f"no notifications from {db.place} arrive here: {WHY_UNHEARD}")
        listener.proved()
        while not stop.is_set():
            _hear(connection, _LOOK_AT_STOP, listener)


def hears_requests(db: Database) -> bool:
    """Try whether notifications arrive. Raises DatabaseUnavailable."""
    nobody = Listener(request=_nothing, proved=_nothing)
    with _listening(db, REQUESTS) as connection:
        heard = _is_heard(db, connection, nobody, Event())
        connection.execute(f"UNLISTEN {REQUESTS}")
        return heard


def _is_heard(
    db: Database, connection: psycopg.Connection, listener: Listener, stop: Event
) -> bool:
    """Notify ourselves over another connection, and say whether it arrives; true at the stop."""
    token = uuid4().hex
    db.transact(lambda tx: tx.execute(select(func.pg_notify(REQUESTS, token))))
    end = monotonic() + _PROVED_WITHIN
    while monotonic() < end:
        if stop.is_set() or token in _hear(connection, _LOOK_AT_STOP, listener):
            return True
    return False


def _hear(connection: psycopg.Connection, seconds: float, listener: Listener) -> list[str]:
    """Wait for notifications; return what they say, which is nothing if they are of requests."""
    said = [each.payload for each in connection.notifies(timeout=seconds, stop_after=1)]
    if "" in said:
        listener.request()
    return said


@contextmanager
def listening_for_events(db: Database, stop: Event) -> Iterator[Wait]:
    """Yield a wait that the next commit of events ends early: on PostgreSQL, in any process.

    On SQLite nothing announces them, and behind a pooler they may not arrive; there `stop` ends the
    wait. Raises DatabaseUnavailable, also inside the wait.
    """
    if db.is_sqlite or db.is_pooled():
        yield lambda seconds: _ignore(stop.wait(seconds))
        return
    with _listening(db, EVENTS) as connection:
        yield lambda seconds: _ignore(list(connection.notifies(timeout=seconds, stop_after=1)))


def _ignore(_result: object) -> None:
    """Drop what a wait returns."""


def _nothing() -> None:
    """Do nothing: nobody waits for requests."""


@contextmanager
def _listening(db: Database, channel: str) -> Iterator[psycopg.Connection]:
    try:
        with closing(_connect(db)) as connection:
            connection.execute(f"LISTEN {channel}")
            yield connection
    except (psycopg.Error, SQLAlchemyError) as error:
        raise DatabaseUnavailable(f"no notifications from {db.place}: {error}") from error


def _connect(db: Database) -> psycopg.Connection:
    """Take a connection out of the pool for good: only the session that listens is notified."""
    taken = db.engine.raw_connection()
    connection: psycopg.Connection = taken.driver_connection  # type: ignore[assignment]
    taken.detach()
    # Notifications arrive between two transactions only.
    connection.autocommit = True
    return connection
