"""What the broker has confirmed is recorded before anything else, whatever becomes of database and process."""

from collections.abc import Callable

import pytest

from retrier.domain import headers
from retrier.domain.wire import ChannelClosed, Unknown
from tests.support.bench import QUEUE, STAGING, Bench
from tests.support.flaky_database import FlakyDatabase
from tests.support.script import to_queue
from tests.support.staged import of_message


@pytest.fixture
def bench(flaky: FlakyDatabase) -> Bench:
    return Bench(flaky, window=2)


def acked(bench: Bench) -> list[str]:
    codec = bench.transport.codec
    found = [codec.read(each.raw).text(headers.UNIQUE_MESSAGE_ID) for each in bench.transport.acked]
    return [unique_id for unique_id in found if unique_id]


def test_a_database_away_after_a_window_sends_nothing_twice(
    bench: Bench, flaky: FlakyDatabase
) -> None:
    ids = bench.fail(5)
    bench.ask_all()

    bench.at("forwarding.published", lambda: flaky.refuse("open_window", times=5))
    bench.work()

    assert bench.sent() == ids


def test_a_database_away_for_long_costs_the_connection_and_doubles_nothing(
    bench: Bench, flaky: FlakyDatabase
) -> None:
    ids = bench.fail(5)
    bench.ask_all()

    def freeze() -> None:
        flaky.refuse("open_window", times=5)
        bench.transport.drop_connections("missed heartbeats")

    bench.at("forwarding.published", freeze)
    bench.work()

    assert bench.sent() == ids


def test_a_recording_that_was_committed_unheard_is_not_counted_twice(
    bench: Bench, flaky: FlakyDatabase
) -> None:
    ids = bench.fail(5)
    operation = bench.ask_all()

    bench.at("forwarding.published", lambda: flaky.silence("open_window"))
    bench.work()

    assert bench.sent() == ids
    assert bench.operation(operation)["forwarded"] == 5


@pytest.mark.parametrize("fault", [FlakyDatabase.refuse, FlakyDatabase.silence])
def test_the_last_window_is_recorded_once_with_the_end_of_its_batch(
    bench: Bench, flaky: FlakyDatabase, fault: Callable[[FlakyDatabase, str], None]
) -> None:
    ids = bench.fail(5)
    operation = bench.ask_all()

    bench.at("forwarding.published", lambda: fault(flaky, "complete_batch"))
    bench.work()

    assert bench.sent() == ids
    assert bench.operation(operation)["forwarded"] == 5
    assert bench.batches() == []


def test_what_was_confirmed_when_the_connection_broke_is_recorded_at_once(bench: Bench) -> None:
    ids = bench.fail(2)
    bench.transport.cue(Unknown("reset"), when=of_message(ids[1], QUEUE), settled=1)
    bench.ask_all()

    while bench.processor.reason is None:
        bench.take_turn()

    assert {key for key, row in bench.claims().items() if row["forwarded_at"]} == {ids[0]}


def test_a_connection_and_the_database_lost_together_double_only_the_doubt(
    bench: Bench, flaky: FlakyDatabase
) -> None:
    ids = bench.fail(2)
    bench.transport.cue(Unknown("reset"), when=of_message(ids[1], QUEUE), settled=1)
    bench.ask_all()

    bench.at("forwarding.published", lambda: flaky.refuse("open_window", times=2))
    bench.work()

    assert bench.sent() == ids
    assert "batch.moved" not in bench.told.names


def test_a_database_away_between_messages_sent_alone_moves_no_batch(
    bench: Bench, flaky: FlakyDatabase
) -> None:
    ids = bench.fail(2)
    bench.transport.cue(ChannelClosed("406"), when=to_queue(QUEUE))
    bench.ask_all()

    bench.at("forwarding.published", lambda: flaky.refuse("open_window", times=2))
    bench.work()

    assert bench.sent() == ids
    assert "batch.moved" not in bench.told.names


def test_a_lease_renewed_slowly_leaves_no_copy_of_a_window_behind(
    bench: Bench, flaky: FlakyDatabase
) -> None:
    ids = bench.fail(4)
    bench.ask_all()

    def renew_slowly(verb: str) -> None:
        if verb == "hold":
            flaky.after = lambda _verb: None
            flaky.refuse("renew_lease")
            bench.clock.advance(6)

    flaky.after = renew_slowly
    bench.at("forwarding.stamped", lambda: bench.clock.advance(6), time=2)
    bench.work()

    assert bench.sent() == ids
    assert "batch.moved" not in bench.told.names


def test_a_completion_that_was_committed_unheard_closes_the_consumer(
    bench: Bench, flaky: FlakyDatabase
) -> None:
    bench.fail(3)
    bench.ask_all()

    bench.at("forwarding.acked", lambda: flaky.silence("complete_batch"))
    bench.work()

    assert bench.batches() == []
    assert bench.transport.broker.queues[STAGING].subscriptions == []


def test_a_stop_records_what_is_confirmed(bench: Bench) -> None:
    ids = bench.fail(5)
    bench.ask_all()
    bench.at("forwarding.published", bench.context.stop.set)
    bench.processor.run()

    bench.restart()
    bench.work()

    assert bench.sent() == ids


def test_a_stop_with_the_database_away_still_ends(bench: Bench, flaky: FlakyDatabase) -> None:
    bench.fail(5)
    bench.ask_all()

    def stop() -> None:
        bench.context.stop.set()
        flaky.refuse("open_window")
        flaky.refuse("release_lease")

    bench.at("forwarding.published", stop)
    bench.processor.run()

    assert bench.transport.connected() == 0


def test_a_message_is_acked_only_after_it_is_recorded(bench: Bench) -> None:
    bench.fail(5)
    bench.ask_all()
    too_early: set[str] = set()

    def look(name: str) -> None:
        if name == "consumer.ack":
            recorded = {key for key, row in bench.claims().items() if row["forwarded_at"]}
            too_early.update(set(acked(bench)) - recorded)

    bench.transport.after_call = look
    bench.work()

    assert len(acked(bench)) == 5
    assert too_early == set()
