"""Notifications on PostgreSQL: a request to one process wakes the processor in another."""

from collections.abc import Callable
from contextlib import closing
from threading import Event

import psycopg
from sqlalchemy.exc import SQLAlchemyError

from retrier.errors import DatabaseUnavailable
from retrier.store.engine.database import Database
from retrier.store.engine.sql_dialect import REQUESTS

_LOOK_AT_STOP = 0.5


def listen_for_requests(db: Database, stop: Event, heard: Callable[[], None]) -> None:
    """Call `heard` for each request that any process commits, until `stop` is set.

    Also once at the start, for requests that came before LISTEN. On PostgreSQL only. Raises
    DatabaseUnavailable when the connection is lost.
    """
    try:
        with closing(_connect(db)) as connection:
            connection.execute(f"LISTEN {REQUESTS}")
            heard()
            while not stop.is_set():
                for _ in connection.notifies(timeout=_LOOK_AT_STOP, stop_after=1):
                    heard()
    except (psycopg.Error, SQLAlchemyError) as error:
        raise DatabaseUnavailable(f"no notifications from {db.place}: {error}") from error


def _connect(db: Database) -> psycopg.Connection:
    """Take a connection out of the pool for good: only the session that listens is notified."""
    taken = db.engine.raw_connection()
    connection: psycopg.Connection = taken.driver_connection  # type: ignore[assignment]
    taken.detach()
    connection.autocommit = True
    return connection
