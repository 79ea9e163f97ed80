"""Requests are told to every process on PostgreSQL; and when the next work is due."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from threading import Event, Thread
from uuid import uuid4

import pytest
from sqlalchemy import text, update

from retrier.domain.retry_operation import RetryRequest, RetryType
from retrier.domain.selection import Selection
from retrier.errors import DatabaseUnavailable
from retrier.store.cuts import ISSUED
from retrier.store.engine.database import Database
from retrier.store.engine.requests import Listener as Called
from retrier.store.engine.requests import hears_requests, listen_for_requests
from retrier.store.engine.transaction import Transaction
from retrier.store.operation_requests import create_operation
from retrier.store.processor_work import time_until_due
from retrier.store.schema import retry_operations
from tests.support.bench import Bench
from tests.support.databases import empty
from tests.support.waiting import wait_until

REQUEST = RetryRequest(
    retry_type=RetryType.MULTIPLE_MESSAGES,
    selection=Selection(ids=("unknown",)),
    originator="a test",
    requested_by="ada",
)
END_LISTENERS = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
    "WHERE datname = current_database() AND query LIKE 'LISTEN%'"
)


def named(*ids: str, key: str | None = None) -> RetryRequest:
    """Make a request that names messages."""
    return replace(REQUEST, selection=Selection(ids=ids), idempotency_key=key)


class Listener:
    """Another process that listens: counts what it hears, keeps what ended it."""

    def __init__(self, db: Database) -> None:
        self.heard = 0
        self.is_proved = False
        self.ended_by: Exception | None = None
        self.stop = Event()
        self._db = db

    def hear(self) -> None:
        self.heard += 1

    def note_proof(self) -> None:
        self.is_proved = True

    def run(self) -> None:
        try:
            listen_for_requests(
                self._db, self.stop, Called(request=self.hear, proved=self.note_proof)
            )
        except DatabaseUnavailable as error:
            self.ended_by = error


@contextmanager
def listening(db: Database) -> Iterator[Listener]:
    listener = Listener(db)
    thread = Thread(target=listener.run)
    thread.start()
    try:
        wait_until(lambda: listener.is_proved, 10, "it listens")
        yield listener
    finally:
        listener.stop.set()
        thread.join(10)
        assert not thread.is_alive()


@pytest.fixture
def postgres(shared_postgres: Database) -> Database:
    """Give the PostgreSQL database of the run, empty."""
    empty(shared_postgres)
    return shared_postgres


class RolledBack(Exception):
    """Ends a transaction from within."""


def make_due(db: Database, after: timedelta) -> None:
    """Let every operation wait for so long from now."""
    with db.engine.begin() as conn:
        conn.execute(update(retry_operations).values(not_before=db.sql.now(conn) + after))


@pytest.mark.postgres
def test_a_request_is_heard_by_every_process_that_listens(postgres: Database) -> None:
    with listening(postgres) as one, listening(postgres) as other:
        create_operation(postgres, REQUEST)

        wait_until(lambda: (one.heard, other.heard) == (2, 2), 30, "both hear of it")


@pytest.mark.postgres
def test_the_proof_that_notifications_arrive_is_no_request(postgres: Database) -> None:
    with listening(postgres) as one, listening(postgres) as other:
        assert hears_requests(postgres)

        assert (one.heard, other.heard) == (1, 1)


@pytest.mark.postgres
def test_a_request_is_not_heard_before_it_is_committed(postgres: Database) -> None:
    # Given a request that is rolled back, and one after it
    def announce_in_vain(tx: Transaction) -> None:
        tx.sql.announce_request(tx.conn)
        raise RolledBack

    with listening(postgres) as listener:
        with pytest.raises(RolledBack):
            postgres.transact(announce_in_vain)
        create_operation(postgres, REQUEST)

        # Then one is heard, besides the beginning
        wait_until(lambda: listener.heard == 2, 30, "the second is heard")
    assert listener.heard == 2


@pytest.mark.postgres
def test_a_listener_says_when_its_connection_is_lost(postgres: Database) -> None:
    with listening(postgres) as listener:
        with postgres.engine.begin() as conn:
            conn.execute(text(END_LISTENERS))

        wait_until(lambda: listener.ended_by is not None, 30, "it ends")
    assert "no notifications from" in str(listener.ended_by)


def test_nothing_is_due_when_there_is_nothing(database: Database) -> None:
    assert time_until_due(database) is None


def test_what_may_be_cut_now_is_due_at_once(database: Database) -> None:
    create_operation(database, REQUEST)

    assert time_until_due(database) == timedelta(0)


def test_what_waits_for_a_time_of_its_own_is_due_then(database: Database) -> None:
    create_operation(database, REQUEST)
    make_due(database, timedelta(minutes=1))

    due = time_until_due(database)

    assert due is not None
    assert timedelta(seconds=50) < due <= timedelta(minutes=1)


def test_what_was_due_before_is_not_waited_for(database: Database) -> None:
    create_operation(database, REQUEST)
    make_due(database, -timedelta(minutes=1))

    assert time_until_due(database) == timedelta(0)


class TestWhatIsSkipped:
    def test_is_known_when_the_request_is_answered(self, database: Database) -> None:
        bench = Bench(database)
        sent, waiting = bench.fail(2)
        bench.ask([sent])
        bench.work()
        unknown = str(uuid4())

        created = create_operation(database, named(sent, waiting, unknown))

        assert created.skipped == {
            sent: ISSUED,
            unknown: "no failed message has this id",
        }

    def test_is_the_same_for_the_same_request_once_the_first_has_begun(
        self, database: Database
    ) -> None:
        # Given a request whose messages this very operation has sent meanwhile
        bench = Bench(database)
        (waiting,) = bench.fail(1)
        unknown = str(uuid4())
        first = create_operation(database, named(waiting, unknown, key="k"))
        bench.work()

        again = create_operation(database, named(waiting, unknown, key="k"))

        assert again.operation_id == first.operation_id
        assert again.skipped == first.skipped == {unknown: "no failed message has this id"}
