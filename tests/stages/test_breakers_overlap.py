"""Two breakers hold the same messages: none waits for a trial that the other one holds."""

from datetime import timedelta

import pytest
from sqlalchemy import update

from retrier.domain.breakers import DEFAULT_RULE, BreakerState
from retrier.store.engine.database import Database
from retrier.store.schema import breakers
from tests.support.bench import QUEUE
from tests.support.breaking import Breakdown
from tests.support.scheduling import schedule

HOUR = timedelta(hours=1)
TURNS = 20
"""Enough for a trial; what is due goes on waiting, and a bench would take all turns there are."""
TYPE = "message_type:Shop.Broken"


@pytest.fixture
def bench(database: Database) -> Breakdown:
    return Breakdown(database)


def fail_both(bench: Breakdown) -> tuple[str, list[str]]:
    """Let one message fail first that two breakers hold, then those that only its queue holds.

    The breaker of the queue has opened by what was counted.
    """
    (both,) = bench.fail(message_type="Shop.Broken")
    ids = bench.break_down()
    bench.work()
    assert bench.state() == "open"
    bench.empty(QUEUE)
    return both, ids


def half_open_all(bench: Breakdown) -> None:
    """Let all breakers be half open, as after their cooldown."""
    row = breakers.c
    ended = {row.hand: None, row.hand_until: None, row.hand_who: None, row.rule: DEFAULT_RULE}
    opened = {row.state: BreakerState.HALF_OPEN, row.opened_at: row.changed_at}
    with bench.db.engine.begin() as conn:
        conn.execute(update(breakers).values({**ended, **opened, row.cooldown_ms: 60_000}))


class TestTheTrial:
    def test_is_none_that_another_breaker_holds(self, bench: Breakdown) -> None:
        # Given that the first message of the queue is of a type that a person has stopped
        _, others = fail_both(bench)
        bench.ask_all()
        bench.work()
        bench.let_pass()
        bench.set(TYPE, BreakerState.OPEN, lasts=HOUR)

        bench.work()

        assert (bench.state(), bench.sent()) == ("half_open", [others[0]])

    def test_of_what_is_due_is_none_that_another_breaker_holds(self, bench: Breakdown) -> None:
        both, others = fail_both(bench)
        schedule(bench.db, [both, *others])
        bench.let_pass()
        bench.set(TYPE, BreakerState.OPEN, lasts=HOUR)

        bench.work(TURNS)

        (trial,) = bench.sent()
        assert trial in others

    def test_waits_while_another_breaker_holds_all(self, bench: Breakdown) -> None:
        bench.break_down(message_type="Shop.Broken")
        bench.work()
        bench.empty(QUEUE)
        bench.ask_all()
        bench.work()
        bench.let_pass()
        bench.set(TYPE, BreakerState.OPEN, lasts=HOUR)
        bench.work()
        assert bench.sent() == []

        bench.set(TYPE, BreakerState.CLOSED)
        bench.work()

        assert (bench.state(), len(bench.sent())) == ("half_open", 1)

    def test_is_one_message_for_two_breakers_that_hold_the_same(self, bench: Breakdown) -> None:
        ids = bench.fail(2, message_type="Shop.Broken")
        for key in (QUEUE, TYPE):
            bench.set(key, BreakerState.OPEN, lasts=HOUR)
        half_open_all(bench)

        bench.ask_all()
        bench.work()

        number = bench.message(ids[0])["number"]
        assert bench.sent() == ids[:1]
        assert [bench.breaker(key)["trial_number"] for key in (QUEUE, TYPE)] == [number, number]
