"""What is not configured costs nothing: no statement about breakers, and none more than before."""

from datetime import timedelta

import pytest

from retrier.domain.breakers import BreakerRules, BreakerState
from retrier.store.breaker_lists import look_at_breakers
from retrier.store.engine.database import Database
from tests.support.bench import QUEUE
from tests.support.breaking import EVERYTHING, OTHER, Breakdown
from tests.support.statements import statements


def about_breakers(noted: list[str]) -> list[str]:
    """Return those that ask or write a table of breakers, not those that ask in passing."""
    tables = ("FROM breakers", "FROM breaker_counts", "INTO breaker", "UPDATE breakers")
    return [each for each in noted if any(_outside(each, table) for table in tables)]


def _outside(statement: str, table: str) -> bool:
    in_passing = ("EXISTS (SELECT", "retry_batches")
    return table in statement and not any(each in statement for each in in_passing)


def go_through(bench: Breakdown) -> None:
    """Let messages fail, be sent, come back and be confirmed."""
    ids = bench.fail(3)
    bench.ask_all()
    bench.work()
    bench.come_back(ids[:2])
    bench.confirm_all(ids[2:])
    bench.ask_all()
    bench.work()


def test_without_rules_nothing_is_asked_about_breakers(database: Database) -> None:
    bench = Breakdown(database, rules=BreakerRules())

    with statements(database) as noted:
        go_through(bench)

    assert noted
    assert about_breakers(noted) == []


def test_without_rules_no_claim_is_written_once_more(database: Database) -> None:
    bench = Breakdown(database, rules=BreakerRules())
    bench.fail(3)
    bench.ask_all()

    with statements(database) as noted:
        bench.work()

    assert not [each for each in noted if "SET breaker_id" in each]


@pytest.mark.parametrize("by_hand", [False, True])
def test_with_rules_or_one_set_by_hand_there_is(database: Database, by_hand: bool) -> None:  # noqa: FBT001 - pytest passes it by name
    bench = Breakdown(database, rules=BreakerRules() if by_hand else EVERYTHING)
    if by_hand:
        bench.set(QUEUE, BreakerState.OPEN, lasts=timedelta(hours=1))

    with statements(database) as noted:
        go_through(bench)

    assert about_breakers(noted)


def test_what_cannot_turn_is_not_read(database: Database) -> None:
    """One that is open until later, and one for which too few were counted until one more was sent."""
    bench = Breakdown(database)
    bench.break_down()
    bench.work()
    few = bench.fail(3, queue=OTHER)
    bench.ask(few)
    bench.work()
    bench.come_back(few)

    assert look_at_breakers(database, EVERYTHING).seen == ()

    one_more = bench.fail(1, queue=OTHER)
    bench.ask(one_more)
    bench.work()
    assert bench.state(OTHER) == "open"
