"""What the processor notes of its progress while it works, waits, or has nothing to do."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from sqlalchemy import update

from retrier.app.readiness import describe_processor
from retrier.processor.broker import AttendedTransport, Broker
from retrier.store.schema import (
    failed_message_retries,
    failed_messages,
    retry_batches,
    retry_operations,
)
from retrier.transport.seam import Unsettled
from tests.support.bench import STAGING, Bench, Killed
from tests.support.flaky_database import FlakyDatabase

LONG = 20.0
BREAKS_EVERY = 4.0
"""Seconds: less than a marker is waited for."""
NOT_YET = datetime(2100, 1, 1, tzinfo=UTC)
WORKS = (True, "processing")


@pytest.fixture
def bench(flaky: FlakyDatabase) -> Bench:
    bench = Bench(flaky, window=2)
    attend(bench)
    return bench


def attend(bench: Bench) -> None:
    """Let the bench note what it waits for, as the service does."""
    transport = AttendedTransport(bench.transport, bench.context.progress)
    object.__setattr__(bench.context, "broker", Broker(transport, STAGING, bench.probe))


def told(bench: Bench) -> tuple[bool, str]:
    """Return what ready says of the processor."""
    context = bench.context
    return describe_processor(bench.processor, context.lease, context.progress)


def listen(bench: Bench, where: Callable[[str], bool]) -> tuple[Callable[[str], None], list[str]]:
    """Return what stands still for long at a named place, and says then what ready tells."""
    heard: list[str] = []

    def stand_still(name: str) -> None:
        if where(name):
            bench.clock.advance(LONG)
            heard.append(told(bench)[1])

    return stand_still, heard


def lose_copies(bench: Bench) -> None:
    def lose(point: str) -> None:
        if point == "staging.committed":
            bench.transport.broker.queues[STAGING].ready.clear()

    bench.crash_at = lose


def take_turns_until_it_backs_off(bench: Bench) -> None:
    while bench.told.names.count("batch.moved") < 3:
        bench.take_turn()
    bench.take_turn()


@pytest.mark.parametrize(
    "verb", ["read", "cut_batch", "claim_messages", "open_window", "begin_forwarding"]
)
def test_a_database_that_does_not_answer_is_named(
    bench: Bench, flaky: FlakyDatabase, verb: str
) -> None:
    flaky.before, heard = listen(bench, lambda name: name == verb)
    bench.ask(bench.fail(3))

    bench.work()

    assert heard
    assert all(words.endswith("s: waits for the database") for words in heard)
    assert told(bench) == WORKS


@pytest.mark.parametrize("call", ["queues.purge", "consumer.receive", "publisher.probe"])
def test_a_broker_that_does_not_answer_is_named(bench: Bench, call: str) -> None:
    bench.transport.before_call, heard = listen(bench, lambda name: name == call)
    bench.fail(3)
    bench.ask_all()

    bench.work()

    assert "no progress for 20 s: waits for the broker to answer" in heard
    assert told(bench) == WORKS


@pytest.mark.parametrize(
    ("awaited", "words"),
    [
        (
            Unsettled(queues=frozenset({"orders"})),
            "waits for the broker to confirm what was sent to orders",
        ),
        (Unsettled(blocked=True), "the broker blocks publishers (alarm)"),
        (Unsettled(), "waits for the broker to answer"),
    ],
)
def test_what_a_publisher_waits_for_is_named(bench: Bench, awaited: Unsettled, words: str) -> None:
    bench.transport.awaited, bench.transport.waits = awaited, 2
    heard: list[str] = []
    check = bench.context.lease.check

    def wait() -> None:
        # The second time it waits, what it waits for is known.
        bench.clock.advance(LONG)
        heard.append(told(bench)[1])
        check()

    publisher = bench.context.broker.publisher
    bench.context.progress.begin()
    publisher.publish([], wait)

    assert heard[-1] == f"no progress for 40 s: {words}"


def test_what_is_done_while_the_broker_has_a_window_is_not_blamed_on_it(
    bench: Bench, flaky: FlakyDatabase
) -> None:
    bench.fail(6)
    bench.ask_all()
    heard: list[str] = []

    def load(name: str) -> None:
        if name == "read" and bench.transport.published:
            bench.clock.advance(LONG)
            heard.append(told(bench)[1])

    flaky.before = load
    bench.work()

    assert heard
    assert all(words.endswith("waits for the database") for words in heard)


def test_staging_anew_what_did_not_come_back_is_no_progress(bench: Bench) -> None:
    bench.fail(3)
    bench.ask_all()
    lose_copies(bench)

    take_turns_until_it_backs_off(bench)
    bench.clock.advance(LONG)

    ready, reason = told(bench)
    assert not ready
    assert reason.endswith("copies vanish from the staging queue")


def test_copies_that_others_take_are_named_though_the_connection_breaks_each_time(
    bench: Bench,
) -> None:
    # Given a batch that a predecessor has staged, and whose copies go to somebody else
    bench.fail(3)
    bench.ask_all()
    bench.kill_at("staging.committed")
    with pytest.raises(Killed):
        bench.work()
    bench.restart()
    attend(bench)
    bench.transport.broker.subscribe(STAGING, 1000)

    # When the connection breaks each time before they are missed
    for _ in range(5):
        began = bench.clock.monotonic()
        while bench.clock.monotonic() < began + BREAKS_EVERY:
            bench.clock.advance(bench.take_turn())
        bench.transport.drop_connections()

    # Then neither database nor broker is blamed for it
    assert bench.told.names.count("broker.unreachable") == 4
    assert told(bench)[1].endswith("s: copies vanish from the staging queue")


def test_it_is_told_all_the_time_that_the_batch_waits(bench: Bench) -> None:
    bench.fail(3)
    bench.ask_all()
    lose_copies(bench)
    take_turns_until_it_backs_off(bench)

    for _ in range(3):
        bench.clock.advance(LONG)
        bench.take_turn()

    assert not told(bench)[0]


def test_a_window_that_is_recorded_ends_it(bench: Bench) -> None:
    bench.fail(3)
    bench.ask_all()
    lose_copies(bench)
    take_turns_until_it_backs_off(bench)
    bench.clock.advance(LONG)

    bench.crash_at = lambda _point: None
    bench.work()

    assert told(bench) == WORKS


def test_copies_that_vanished_from_a_batch_that_is_gone_are_forgotten(bench: Bench) -> None:
    bench.fail(3)
    bench.ask_all()
    lose_copies(bench)
    take_turns_until_it_backs_off(bench)
    bench.clock.advance(LONG)

    with bench.db.engine.begin() as conn:
        conn.execute(update(failed_messages).values(status="unresolved", last_retry_id=None))
        conn.execute(failed_message_retries.delete())
        conn.execute(retry_batches.delete())
        conn.execute(update(retry_operations).values(not_before=NOT_YET))
    bench.take_turn()

    assert told(bench) == WORKS


@pytest.mark.parametrize("held_back", [{"state": "paused"}, {"not_before": NOT_YET}])
def test_what_is_held_back_on_purpose_is_no_standstill(
    bench: Bench, held_back: dict[str, object]
) -> None:
    bench.fail(3)
    bench.ask_all()
    with bench.db.engine.begin() as conn:
        conn.execute(update(retry_operations).values(held_back))
    bench.take_turn()

    bench.clock.advance(1000)

    assert told(bench) == WORKS


def test_many_operations_that_match_nothing_are_progress(bench: Bench) -> None:
    for _ in range(4):
        bench.ask_all()

    for _ in range(4):
        bench.take_turn()
        bench.clock.advance(LONG / 2)
        assert told(bench) == WORKS


def test_a_standby_is_ready_whatever_its_last_turn_waited_for(bench: Bench) -> None:
    bench.fail(3)
    bench.ask_all()
    lose_copies(bench)
    take_turns_until_it_backs_off(bench)

    bench.lose_lease()
    bench.context.lease.lose()
    bench.take_turn()
    bench.clock.advance(LONG)

    assert told(bench)[0]


def test_a_trouble_with_an_error_is_told_in_the_words_of_the_error(bench: Bench) -> None:
    bench.fail(3)
    bench.ask_all()
    bench.transport.go_down("connection refused")
    bench.take_turn()
    bench.take_turn()
    bench.take_turn()

    bench.clock.advance(LONG)

    assert told(bench) == (False, "connection refused")


def test_nobody_who_asks_how_it_is_waits_for_the_database(
    bench: Bench, flaky: FlakyDatabase
) -> None:
    asked: list[str] = []
    bench.take_turn()
    flaky.before = asked.append

    told(bench)

    assert asked == []
