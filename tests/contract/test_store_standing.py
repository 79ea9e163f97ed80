"""How everything stands, and what one received batch came to."""

from datetime import timedelta

from retrier.domain.failed_message import FailedImport, FailedMessageStatus
from retrier.domain.retry_batch import RetryBatchStatus
from retrier.domain.retry_operation import RetryOperationState
from retrier.store.engine.database import Database
from retrier.store.figures import read_figures
from retrier.store.recording import Recorded, record_received
from tests.support.bench import QUEUE, Bench
from tests.support.factories import FAILED_AT, confirmation, failure, unique_id


def received(db: Database, *items: object) -> Recorded:
    return record_received(db, items, instance="test")  # type: ignore[arg-type]


def unreadable() -> FailedImport:
    return FailedImport(
        error_queue="error", reason="?", raw=b"", body=b"", fingerprint="f0", received_at=FAILED_AT
    )


def test_an_empty_database_has_nothing_and_no_processor(database: Database) -> None:
    standing = read_figures(database)

    assert (standing.operations, standing.batches, standing.failed_imports) == ({}, {}, 0)
    assert standing.oldest_unresolved is None
    assert standing.epoch == 0


def test_everything_is_counted_by_its_state(database: Database) -> None:
    bench = Bench(database)
    bench.fail(3)
    bench.receive(unreadable())
    bench.ask_all()
    while not bench.pointer():
        bench.turn()

    standing = read_figures(database)

    assert standing.ledger.stored == {FailedMessageStatus.RETRY_ISSUED: 3}
    assert standing.operations == {RetryOperationState.FORWARDING: 1}
    assert standing.batches == {RetryBatchStatus.FORWARDING: 1}
    assert (standing.failed_imports, standing.epoch) == (1, 1)


def test_an_operation_that_is_over_is_counted_no_more(database: Database) -> None:
    bench = Bench(database)
    bench.ask_all()
    bench.work()

    assert read_figures(database).operations == {}


def test_the_oldest_is_the_unresolved_one_that_waits_longest(database: Database) -> None:
    bench = Bench(database)
    (oldest,) = bench.fail(time_of_failure=FAILED_AT)
    bench.fail(time_of_failure=FAILED_AT + timedelta(days=1))
    before = read_figures(database).oldest_unresolved

    bench.set_status(oldest, FailedMessageStatus.ARCHIVED)

    after = read_figures(database).oldest_unresolved
    assert before is not None
    assert after is not None
    assert timedelta(hours=23) < before - after < timedelta(hours=24)


def test_a_message_from_a_clock_that_is_ahead_has_no_age(database: Database) -> None:
    Bench(database).fail(time_of_failure=FAILED_AT.replace(year=2199))

    assert read_figures(database).oldest_unresolved == timedelta(0)


class TestARetryThatWasSent:
    def test_is_confirmed_once(self, database: Database) -> None:
        bench = Bench(database)
        (key,) = bench.fail()
        bench.ask_all()
        bench.work()

        first = received(database, confirmation(key))
        second = received(database, confirmation(key))

        assert (first.confirmed, first.failed_again) == (1, 0)
        assert (second.confirmed, second.failed_again) == (0, 0)

    def test_failed_again_when_its_message_comes_back(self, database: Database) -> None:
        bench = Bench(database)
        failed = failure(queue=QUEUE)
        bench.receive(failed)
        bench.ask_all()
        bench.work()
        back = failure(queue=QUEUE, message_id=failed.message_id, body=failed.body)

        first = received(database, back)
        second = received(database, failure(message_id=failed.message_id, body=failed.body))

        assert (first.confirmed, first.failed_again) == (0, 1)
        assert second.failed_again == 0

    def test_is_confirmed_where_failure_and_success_come_together(self, database: Database) -> None:
        bench = Bench(database)
        failed = failure(queue=QUEUE)
        bench.receive(failed)
        bench.ask_all()
        bench.work()
        back = failure(queue=QUEUE, message_id=failed.message_id, body=failed.body)
        success = confirmation(unique_id(failed), succeeded_at=FAILED_AT + timedelta(hours=1))

        both = received(database, back, success)

        assert (both.confirmed, both.failed_again) == (1, 0)


def test_a_retry_that_is_not_sent_yet_has_no_outcome(database: Database) -> None:
    bench = Bench(database)
    failed = failure(queue=QUEUE)
    bench.receive(failed)
    bench.ask_all()
    bench.turn()
    assert bench.claims() != {}

    recorded = received(database, failure(message_id=failed.message_id, body=failed.body))

    assert recorded.failed_again == 0


def test_the_counts_are_those_of_the_ledger(database: Database) -> None:
    recorded = received(database, failure(), failure(), unreadable())

    ledger = read_figures(database).ledger
    assert {name: number for name, number in recorded.counts.items() if number} == ledger.entries
    assert ledger.entries == {"taken_off": 3, "new": 2, "failed_imports": 1}
