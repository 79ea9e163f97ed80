"""Notifications on PostgreSQL: what one process commits wakes a thread of another."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from threading import Event

import psycopg
from sqlalchemy.exc import SQLAlchemyError

from retrier.errors import DatabaseUnavailable
from retrier.store.engine.database import Database
from retrier.store.engine.sql_dialect import EVENTS, REQUESTS

_LOOK_AT_STOP = 0.5

Wait = Callable[[float], None]
"""Waits for so many seconds at most."""


def listen_for_requests(db: Database, stop: Event, heard: Callable[[], None]) -> None:
    """Call `heard` for each request that any process commits, until `stop` is set.

    Also once at the start, for requests that came before LISTEN. On PostgreSQL only. Raises
    DatabaseUnavailable when the connection is lost.
    """
    with _listening(db, REQUESTS) as connection:
        heard()
        while not stop.is_set():
            for _ in connection.notifies(timeout=_LOOK_AT_STOP, stop_after=1):
                heard()


@contextmanager
def listening_for_events(db: Database, stop: Event) -> Iterator[Wait]:
    """Yield a wait that the next commit of events ends early: on PostgreSQL, in any process.

    On SQLite nothing announces them; there `stop` ends the wait. Raises DatabaseUnavailable, also
    inside the wait.
    """
    if db.is_sqlite:
        yield lambda seconds: _ignore(stop.wait(seconds))
        return
    with _listening(db, EVENTS) as connection:
        yield lambda seconds: _ignore(list(connection.notifies(timeout=seconds, stop_after=1)))


def _ignore(_result: object) -> None:
    """Drop what a wait returns."""


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
    connection.autocommit = True
    return connection
