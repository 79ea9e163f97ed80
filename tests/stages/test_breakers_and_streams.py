"""Breakers and streams meet where the next batch is cut: each keeps its word, and its reason."""

from datetime import timedelta

import pytest
from sqlalchemy import true

from retrier.domain.breakers import BreakerState
from retrier.domain.streams import Stream
from retrier.store.engine.database import Database
from retrier.store.schedule import LeftOut, join_left_out
from tests.support.bench import QUEUE
from tests.support.breaking import OTHER, Breakdown
from tests.support.scheduling import LONG_AGO, schedule
from tests.support.streams import ORDER, fail_in_stream, look_now, make_strict, release

HOUR = timedelta(hours=1)
TURNS = 20
"""Enough for a trial; what is due goes on waiting, and a bench would take all turns there are."""
OPEN = "`orders`"


@pytest.fixture
def bench(database: Database) -> Breakdown:
    return Breakdown(database)


def open_with_a_stream(bench: Breakdown) -> list[str]:
    """Open the breaker of `orders` by a strict stream whose head has failed last."""
    ids = bench.fail(4, stream_id=ORDER)
    bench.ask(ids)
    bench.work()
    for each in reversed(ids):
        bench.come_back([each])
    make_strict(bench.db)
    bench.work()
    assert bench.state() == "open"
    bench.empty(QUEUE)
    failure_numbers = [bench.message(each)["failure_seq"] for each in ids]
    assert failure_numbers[0] == max(failure_numbers)
    return ids


def open_by_hand(bench: Breakdown) -> None:
    bench.set(QUEUE, BreakerState.OPEN, lasts=HOUR)


class TestTheTrial:
    def test_is_none_that_a_stream_holds(self, bench: Breakdown) -> None:
        head, *_ = open_with_a_stream(bench)
        bench.ask_all()
        bench.work()

        bench.let_pass()
        bench.work()

        assert (bench.state(), bench.sent()) == ("half_open", [head])
        assert bench.breaker()["trial_number"] == bench.message(head)["number"]

    def test_of_what_is_due_is_none_that_a_stream_holds(self, bench: Breakdown) -> None:
        head, *others = open_with_a_stream(bench)
        schedule(bench.db, others, within=LONG_AGO)
        schedule(bench.db, [head])
        bench.let_pass()

        bench.work(TURNS)

        assert (bench.state(), bench.sent()) == ("half_open", [head])

    def test_that_is_confirmed_lets_the_stream_go_on_in_its_order(self, bench: Breakdown) -> None:
        ids = open_with_a_stream(bench)
        created = bench.ask_all()
        bench.work()
        bench.let_pass()
        bench.work()

        for each in ids:
            assert bench.sent()[-1] == each
            bench.confirm(each)
            look_now(bench)
            bench.work()

        assert bench.sent() == ids
        assert bench.operation(created)["state"] == "completed"


class TestAMessageThatBothHold:
    def test_has_both_reasons(self, bench: Breakdown) -> None:
        head, _ = fail_in_stream(bench, 2)
        open_by_hand(bench)
        created = bench.ask_all()

        bench.work()

        row = bench.operation(created)
        assert (row["passed_over"], row["left_out"]) == (True, 2)
        assert OPEN in row["reason"]
        assert f"held behind {head}" in row["reason"]

    def test_waits_for_the_breaker_when_the_stream_is_released(self, bench: Breakdown) -> None:
        fail_in_stream(bench, 2)
        open_by_hand(bench)
        created = bench.ask_all()
        bench.work()

        release(bench.db)
        bench.work()

        row = bench.operation(created)
        assert (bench.sent(), row["passed_over"], row["left_out"]) == ([], True, 2)
        assert OPEN in row["reason"]
        assert "held behind" not in row["reason"]

    def test_waits_for_the_stream_when_the_breaker_closes(self, bench: Breakdown) -> None:
        head, _ = fail_in_stream(bench, 2)
        open_by_hand(bench)
        created = bench.ask_all()
        bench.work()

        bench.set(QUEUE, BreakerState.CLOSED)
        bench.work()

        row = bench.operation(created)
        assert (bench.sent(), row["passed_over"], row["left_out"]) == ([head], True, 1)
        assert str(row["reason"]).startswith(f"held behind {head}")
        assert OPEN not in row["reason"]

    def test_goes_when_both_have_let_go(self, bench: Breakdown) -> None:
        ids = fail_in_stream(bench, 2)
        open_by_hand(bench)
        created = bench.ask_all()
        bench.work()

        release(bench.db)
        bench.set(QUEUE, BreakerState.CLOSED)
        bench.work()

        assert sorted(bench.sent()) == sorted(ids)
        assert bench.operation(created)["state"] == "completed"


def test_a_stream_does_not_wait_for_a_breaker_of_others(bench: Breakdown) -> None:
    head, follower = fail_in_stream(bench, 2, queue=OTHER)
    open_by_hand(bench)
    created = bench.ask_all()

    bench.work()
    assert OPEN not in bench.operation(created)["reason"]

    release(bench.db, stream=Stream(OTHER, ORDER))
    bench.work()
    assert bench.sent(OTHER) == [head, follower]
    assert bench.operation(created)["state"] == "completed"


def test_what_is_joined_keeps_each_reason_and_all_trials() -> None:
    first = LeftOut(condition=true(), reason="one", trials={10: 1})
    second = LeftOut(condition=true(), reason="two", trials={20: 2})

    joined = join_left_out(first, None, second)

    assert joined is not None
    assert joined.trials == {10: 1, 20: 2}
    assert [part.reason for part in joined.parts] == ["one", "two"]
