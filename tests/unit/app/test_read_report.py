"""How far a process says that it has read its error queues, while a canary waits for its verdict."""

from datetime import datetime

import pytest
from sqlalchemy import select

from retrier.app.reports import ReadReport
from retrier.domain.retry_operation import Canary, RetryTerms
from retrier.errors import BrokerUnavailable
from retrier.store.engine.database import Database
from retrier.store.schema import error_queue_reads
from tests.support.bench import Bench
from tests.support.databases import empty
from tests.support.ingestion_bench import QUEUE, IngestionBench

SESSION = "7b1c6c5e-8a49-4b7f-9c2d-1f6a2f0d5e11"


class Reader:
    """A process that reads one error queue, and says how far."""

    def __init__(self, db: Database) -> None:
        self.db = db
        self.bench = IngestionBench()
        self.report = ReadReport(
            db, self.bench.transport, self.bench.clock, [self.bench.ingestor], SESSION
        )

    def look(self) -> None:
        """Let a second pass, and say how far it has read."""
        self.bench.clock.advance(1)
        self.report()

    def read(self) -> None:
        """Take one batch off the queue, or find that there is none: a first look does not say so."""
        self.bench.clock.advance(1)
        self.bench.turns(2)

    def said(self) -> tuple[int | None, datetime | None]:
        """Return what is ready by its word, and when the queue was level."""
        columns = error_queue_reads.c
        query = select(columns.ready, columns.level_at).where(columns.session_id == SESSION)
        return self.db.read(lambda tx: tuple(tx.execute(query).one()))

    @property
    def level_at(self) -> datetime | None:
        return self.said()[1]


@pytest.fixture
def reader(shared_sqlite: Database) -> Reader:
    """Give a reader beside a canary that waits."""
    empty(shared_sqlite)
    bench = Bench(shared_sqlite)
    bench.reads_all = False
    bench.fail(3)
    bench.ask_all(RetryTerms(canary=Canary(size=1)))
    while not bench.take_turn():
        pass
    return Reader(shared_sqlite)


def test_a_queue_is_level_once_it_is_empty_and_a_later_look_finds_nothing(reader: Reader) -> None:
    reader.look()
    assert reader.level_at is None

    reader.read()
    reader.look()

    assert reader.level_at is not None


def test_the_moment_is_that_before_the_broker_was_asked(reader: Reader) -> None:
    reader.look()
    asked = reader.db.read(lambda tx: tx.now)
    reader.read()
    reader.look()

    level_at = reader.level_at
    assert level_at is not None
    assert level_at <= asked


def test_what_the_consumer_found_before_the_broker_was_asked_says_nothing(reader: Reader) -> None:
    reader.read()

    reader.look()
    reader.look()

    assert reader.level_at is None


def test_a_queue_with_messages_is_not_level_and_says_how_many_are_on_it(reader: Reader) -> None:
    reader.bench.fail(b"a", b"b")

    reader.look()
    reader.look()

    assert reader.said() == (2, None)


def test_a_queue_of_which_a_dead_process_has_some_in_hand_is_not_level(reader: Reader) -> None:
    # As on SQS, which gives them back when their time is over
    reader.bench.transport.hidden[QUEUE] = 2

    reader.look()
    reader.read()
    reader.look()

    assert reader.said() == (2, None)


def test_a_queue_that_does_not_exist_holds_nothing(reader: Reader) -> None:
    reader.bench.transport.broker.delete(QUEUE)

    reader.look()
    reader.read()
    reader.look()

    assert reader.level_at is not None


def test_a_broker_that_does_not_answer_makes_nothing_level(reader: Reader) -> None:
    reader.look()
    reader.bench.transport.fail("queues.look", BrokerUnavailable("connection reset"))
    reader.look()

    reader.read()
    reader.look()

    assert reader.level_at is None


def test_one_that_stops_says_so(reader: Reader) -> None:
    reader.look()

    reader.report.stop()

    assert reader.db.read(lambda tx: tx.execute(select(error_queue_reads.c.stopped)).scalar_one())
