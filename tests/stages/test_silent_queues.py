"""A queue that does not answer, though the broker does: our own is made anew, another waited for."""

from collections import Counter

import pytest

from retrier.domain.wire import Unknown
from retrier.errors import BrokerUnavailable, QueueSilent
from retrier.events.processor import StagingQueueDeleted
from retrier.processor.staging_queue import Renewals
from retrier.store.engine.database import Database
from tests.support.bench import QUEUE, STAGING, Bench, Killed
from tests.support.script import to_queue

HOUR = 3600

EVERY_QUESTION = [
    "queues.declare_staging_queue",
    "queues.purge",
    "publisher.publish",
    "transport.consumer",
]


@pytest.fixture
def bench(database: Database) -> Bench:
    return Bench(database, window=2)


def silent() -> QueueSilent:
    return QueueSilent(STAGING, "nothing came for 10 s")


def told(bench: Bench) -> Counter[str]:
    return Counter(bench.told.names)


def count_deletions(bench: Bench) -> int:
    return bench.transport.calls.count("queues.delete")


def go_silent(bench: Bench, times: int) -> None:
    bench.transport.fail("queues.purge", silent(), times=times)


@pytest.mark.parametrize("question", EVERY_QUESTION)
def test_a_staging_queue_that_does_not_answer_is_deleted_and_filled_again(
    bench: Bench, question: str
) -> None:
    ids = bench.fail(5)
    bench.ask_all()
    bench.transport.fail(question, silent())

    bench.work()

    assert bench.sent() == ids
    assert count_deletions(bench) == 1
    assert (told(bench)["staging.renewed"], told(bench)["processor.recovered"]) == (1, 1)


def test_one_that_falls_silent_in_the_middle_costs_the_window_that_is_on_its_way(
    bench: Bench,
) -> None:
    # Given a window that the broker has taken when the connection breaks
    ids = bench.fail(6)
    bench.ask_all()
    bench.transport.cue(Unknown("connection reset"), when=to_queue(QUEUE), stored=True)

    # When the staging queue does not answer afterwards
    def fall_silent() -> None:
        bench.transport.fail("transport.consumer", silent())

    bench.at("forwarding.published", fall_silent)
    bench.work()

    # Then all arrive, and only what was on its way arrives twice
    sent = Counter(bench.sent())
    assert set(sent) == set(ids)
    assert sent.total() - len(sent) <= 2
    assert count_deletions(bench) == 1


def test_the_reason_names_the_queue_that_does_not_answer(bench: Bench) -> None:
    bench.fail(1)
    bench.ask_all()
    bench.turn()
    bench.transport.fail("publisher.publish", BrokerUnavailable("connection reset"))
    bench.take_turn()
    bench.end_waits()

    go_silent(bench, 1)
    pause = bench.take_turn()

    assert pause == 0
    assert bench.processor.reason == (
        f"the queue '{STAGING}' does not answer, though the broker does: nothing came for 10 s; "
        "it is deleted and declared anew"
    )


def test_a_queue_that_stays_silent_is_deleted_three_times_and_then_left_alone(
    bench: Bench,
) -> None:
    bench.fail(1)
    bench.ask_all()
    go_silent(bench, 9)

    pauses = []
    for _ in range(10):
        pauses.append(bench.take_turn())
        bench.end_waits()

    assert count_deletions(bench) == 3
    assert pauses[-1] == 30
    assert told(bench)["staging.unusable"] == 1
    assert "does not answer" in str(bench.processor.reason)
    assert "deleted and declared anew 3 times within an hour" in str(bench.processor.reason)


def test_a_deletion_that_the_broker_never_heard_of_does_not_count(bench: Bench) -> None:
    ids = bench.fail(1)
    bench.ask_all()
    go_silent(bench, 4)
    bench.transport.fail("queues.delete", BrokerUnavailable("connection reset"), times=3)

    bench.work()

    assert told(bench)["staging.unusable"] == 0
    assert bench.sent() == ids


def test_a_queue_that_was_left_alone_is_used_as_soon_as_it_answers(bench: Bench) -> None:
    ids = bench.fail(1)
    bench.ask_all()
    go_silent(bench, 5)

    bench.work()

    assert bench.sent() == ids
    assert bench.processor.reason is None


def test_so_many_renewals_as_may_be_in_an_hour_may_be_in_the_next_one() -> None:
    renewals: Renewals | None = Renewals()
    for time in (0, 100, 200):
        assert renewals is not None
        renewals = renewals.add(time)

    assert renewals is not None
    assert renewals.add(HOUR - 1) is None
    assert renewals.add(HOUR) == Renewals((100, 200, HOUR))


def test_nobody_gives_way_because_a_queue_is_silent(bench: Bench) -> None:
    bench.fail(1)
    bench.ask_all()
    go_silent(bench, 8)

    def pass_time(name: str) -> None:
        bench.clock.advance(bench.context.lease.seconds if name == "queues.purge" else 0)

    bench.transport.before_call = pass_time
    for _ in range(10):
        bench.take_turn()
        bench.end_waits()

    assert bench.context.lease.held
    assert told(bench)["processor.gave_way"] == 0


def test_a_process_that_has_lost_the_lease_deletes_nothing(bench: Bench) -> None:
    bench.fail(1)
    bench.ask_all()
    bench.turn()
    go_silent(bench, 1)
    bench.take_turn()

    bench.lose_lease()
    for _ in range(3):
        bench.take_turn()

    assert count_deletions(bench) == 0


@pytest.mark.parametrize("question", ["queues.purge", "transport.consumer"])
def test_a_kill_when_it_is_deleted_loses_nothing_and_doubles_nothing(
    bench: Bench, question: str
) -> None:
    ids = bench.fail(5)
    bench.ask_all()
    bench.transport.fail(question, silent())

    bench.kill_at(StagingQueueDeleted.name)
    with pytest.raises(Killed):
        bench.work()
    bench.restart()
    bench.work()

    assert bench.sent() == ids


def test_a_queue_that_cannot_be_deleted_either_counts_as_deleted(bench: Bench) -> None:
    bench.fail(1)
    bench.ask_all()
    go_silent(bench, 9)
    bench.transport.fail("queues.delete", silent(), times=9)

    for _ in range(10):
        bench.take_turn()
        bench.end_waits()

    assert count_deletions(bench) == 3
    assert "does not answer" in str(bench.processor.reason)
