"""A client that stops in the middle of a statement must not keep its locks from everybody."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import psycopg
import pytest
from sqlalchemy import text

from retrier.store.engine.database import Database
from retrier.store.upkeep import end_stuck_sessions, get_installation_id
from tests.support.databases import empty
from tests.support.servers import psycopg_url
from tests.support.waiting import wait_until

DEADLINE = 10.0
NO_TIME = timedelta(0)
LONG = timedelta(minutes=1)
LOCK = "UPDATE installation SET id = id"
TRY = "SELECT id FROM installation FOR UPDATE NOWAIT"
WAITS = "SELECT wait_event FROM pg_stat_activity WHERE pid = :pid AND state <> 'idle'"
ROWS = "SELECT repeat('x', 1000000) FROM generate_series(1, 100), installation FOR UPDATE"

pytestmark = pytest.mark.postgres


@pytest.fixture
def postgres(shared_postgres: Database) -> Database:
    """Give the PostgreSQL database of the run, with one row to lock."""
    empty(shared_postgres)
    get_installation_id(shared_postgres)
    return shared_postgres


@contextmanager
def stopped_in(
    db: Database, statement: str, name: str = "retrier", then: bytes = b""
) -> Iterator[int]:
    """Stop a client behind a statement, without the end of what it sends; give its backend.

    `then` is a prepared statement that it goes on to close, behind the end of the statement.
    """
    url = psycopg_url(db.engine.url.render_as_string(hide_password=False))
    conn = psycopg.connect(url, application_name=name, autocommit=True)
    pid = conn.info.backend_pid
    conn.pgconn.enter_pipeline_mode()
    conn.pgconn.send_query_params(b"BEGIN", None)
    conn.pgconn.send_query_params(statement.encode(), None)
    if then:
        conn.pgconn.pipeline_sync()
        conn.pgconn.send_close_prepared(then)
    conn.pgconn.send_flush_request()
    conn.pgconn.flush()
    query = text(WAITS)
    wait_until(
        lambda: db.read(lambda tx: tx.execute(query, {"pid": pid}).scalar()), DEADLINE, "it waits"
    )
    try:
        yield pid
    finally:
        conn.pgconn.finish()


def is_locked(db: Database) -> bool:
    url = psycopg_url(db.engine.url.render_as_string(hide_password=False))
    with psycopg.connect(url, autocommit=True) as conn:
        try:
            conn.execute(TRY)
        except psycopg.errors.LockNotAvailable:
            return True
    return False


@pytest.mark.parametrize("statement", [LOCK, ROWS], ids=["sends no more", "reads no more"])
def test_its_session_is_ended_and_its_locks_are_free(postgres: Database, statement: str) -> None:
    with stopped_in(postgres, statement):
        wait_until(lambda: is_locked(postgres), DEADLINE, "it holds the row")

        wait_until(lambda: end_stuck_sessions(postgres, older_than=NO_TIME), DEADLINE)

        wait_until(lambda: not is_locked(postgres), DEADLINE, "the row is free")


def test_one_that_stopped_between_two_statements_is_ended_although_it_began_the_next(
    postgres: Database,
) -> None:
    with stopped_in(postgres, LOCK, then=b"close") as pid:
        state = text("SELECT state FROM pg_stat_activity WHERE pid = :pid")

        def is_between_two() -> bool:
            shown = postgres.read(lambda tx: tx.execute(state, {"pid": pid}).scalar_one())
            return bool(shown == "idle in transaction")

        # It may still be at the statement, and wait for a disk.
        wait_until(is_between_two, DEADLINE)

        wait_until(lambda: end_stuck_sessions(postgres, older_than=NO_TIME), DEADLINE)

        wait_until(lambda: not is_locked(postgres), DEADLINE, "the row is free")


def test_one_that_has_its_time_is_left_alone(postgres: Database) -> None:
    with stopped_in(postgres, LOCK):
        assert end_stuck_sessions(postgres, older_than=LONG) == 0


def test_a_session_of_somebody_else_is_left_alone(postgres: Database) -> None:
    with stopped_in(postgres, LOCK, name="psql"):
        assert end_stuck_sessions(postgres, older_than=NO_TIME) == 0
