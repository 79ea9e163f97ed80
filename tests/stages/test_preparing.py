"""The next window is made ready while the broker has the one before; that must cost nobody a copy."""

from collections.abc import Callable

import pytest

from retrier.errors import BrokerUnavailable
from tests.support.bench import STAGING, Bench
from tests.support.flaky_database import FlakyDatabase


@pytest.fixture
def bench(flaky: FlakyDatabase) -> Bench:
    return Bench(flaky, window=2)


def while_first_window_is_confirmed(bench: Bench, act: Callable[[], object]) -> None:
    """Let something happen when the first window is written and the next one is asked for."""
    state = {"stamped": False, "done": False}

    def reach(point: str) -> None:
        state["stamped"] |= point == "forwarding.stamped"

    def enter(name: str) -> None:
        if state["stamped"] and not state["done"] and name == "consumer.receive":
            state["done"] = True
            act()

    bench.crash_at = reach
    bench.transport.before_call = enter


def test_the_next_window_is_ready_before_this_one_is_recorded(
    bench: Bench, flaky: FlakyDatabase
) -> None:
    bench.fail(4)
    bench.ask_all()
    done: list[str] = []
    flaky.before = done.append
    bench.crash_at = done.append

    bench.work()

    stamped, published = done.index("forwarding.stamped"), done.index("forwarding.published")
    assert done[stamped + 1 : published] == ["read"]


def test_a_third_window_is_on_its_way_while_the_broker_has_the_first(bench: Bench) -> None:
    bench.fail(8)
    bench.ask_all()
    handed_out: list[int] = []

    bench.at(
        "forwarding.published",
        lambda: handed_out.append(len(bench.transport.broker.unacked(STAGING))),
    )
    bench.work()

    assert handed_out == [6]


def test_nothing_of_it_is_stamped_before_this_one_is_recorded(bench: Bench) -> None:
    ids = bench.fail(4)
    bench.ask_all()
    in_doubt: list[set[str]] = []

    bench.at("forwarding.published", lambda: in_doubt.append(bench.in_doubt()))
    bench.work()

    assert in_doubt == [set(ids[:2])]


def test_a_database_away_meanwhile_costs_nothing(bench: Bench, flaky: FlakyDatabase) -> None:
    ids = bench.fail(5)
    bench.ask_all()

    while_first_window_is_confirmed(bench, lambda: flaky.refuse("read", times=3))
    bench.work()

    assert bench.sent() == ids


def test_a_consumer_that_breaks_meanwhile_loses_no_outcome(bench: Bench) -> None:
    ids = bench.fail(5)
    bench.ask_all()

    while_first_window_is_confirmed(
        bench, lambda: bench.transport.fail("consumer.receive", BrokerUnavailable("reset"))
    )
    bench.work()

    assert bench.sent() == ids


def test_a_staging_queue_that_is_deleted_meanwhile_loses_no_outcome(bench: Bench) -> None:
    ids = bench.fail(5)
    bench.ask_all()

    while_first_window_is_confirmed(bench, lambda: bench.transport.broker.delete(STAGING))
    bench.work()

    assert bench.sent() == ids


def test_a_message_that_is_settled_before_its_window_is_stamped_is_not_sent(bench: Bench) -> None:
    ids = bench.fail(4)
    bench.ask_all()

    bench.at("forwarding.published", lambda: bench.confirm(ids[3]))
    bench.work()

    assert bench.sent() == ids[:3]


def test_a_copy_that_nobody_claims_is_acked_once_though_the_database_was_away(
    bench: Bench, flaky: FlakyDatabase
) -> None:
    """A second ack of it would be one too many, for which a broker closes the channel."""
    ids = bench.fail(5)
    bench.ask_all()
    while_first_window_is_confirmed(bench, lambda: flaky.refuse("read"))
    noticed = bench.crash_at

    def reach(point: str) -> None:
        noticed(point)
        if point == "staging.committed":
            bench.confirm(ids[3])

    bench.crash_at = reach
    bench.work()

    assert bench.sent() == [each for each in ids if each != ids[3]]
    assert bench.told.of("processor.recovered") == []
