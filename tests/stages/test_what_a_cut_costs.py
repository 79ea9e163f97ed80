"""However much is configured or broken, a cut and its batch ask as many statements."""

from collections import Counter
from typing import Any

import pytest
from sqlalchemy import insert

from retrier.domain.breaker import BreakerRules, BreakerState, BreakerTerms
from retrier.store.engine.database import Database
from retrier.store.queries.breaker_holds import MOST_TRIALS
from retrier.store.schema import breakers
from tests.support.breaking import FEW, Breakdown
from tests.support.databases import empty
from tests.support.factories import failure
from tests.support.scheduling import schedule
from tests.support.statements import statements

FEW_ONES, MANY = 3, 60
TURNS = 8


def queue_of(number: int) -> str:
    return f"queue-{number:04}"


def break_many(bench: Breakdown, count: int, **changes: Any) -> list[str]:
    """Let two messages fail on each of so many queues, whose breakers are open and due."""
    names = [queue_of(number) for number in range(count)]
    failures = [failure(**{"queue": name, **changes}) for name in names for _ in range(2)]
    bench.receive(*failures)
    now = bench.db.read(lambda tx: tx.now)
    moments = dict.fromkeys(("changed_at", "opened_at", "due_at"), now)
    rows = [
        {
            "breaker_key": name,
            "per": "destination",
            "name": name,
            "rule": name,
            "cooldown_ms": 60_000,
            **moments,
        }
        for name in names
    ]
    with bench.db.engine.begin() as conn:
        conn.execute(insert(breakers), [{**row, "state": BreakerState.OPEN} for row in rows])
    for name in names:
        bench.transport.broker.declare(name)
    return names


def rules_of(count: int) -> BreakerRules:
    """Return a rule with a breaker for each queue, and one for the rest."""
    terms = BreakerTerms(window=20, least=4)
    return BreakerRules(default=FEW, rules={queue_of(number): terms for number in range(count)})


def asked(bench: Breakdown, turns: int = TURNS) -> Counter[str]:
    """Return how often each statement is asked in the next turns."""
    with statements(bench.db) as noted:
        for _ in range(turns):
            bench.turn()
    return Counter(noted)


def costs(database: Database, count: int, *, by_policy: bool) -> Counter[str]:
    """Let so many breakers be tried at once; return what was asked from their turn to the end."""
    empty(database)
    bench = Breakdown(database, rules=rules_of(count))
    names = break_many(bench, count)
    if by_policy:
        schedule(database)
    else:
        bench.ask_all()

    found = asked(bench)

    assert len(bench.sent_to(*names)) == count
    return found


@pytest.mark.parametrize("by_policy", [True, False])
def test_breakers_that_try(database: Database, by_policy: bool) -> None:  # noqa: FBT001 - pytest passes it by name
    few = costs(database, FEW_ONES, by_policy=by_policy)
    many = costs(database, MANY, by_policy=by_policy)

    assert many - few == {}


def test_no_more_than_so_many_are_tried_in_one_cut(database: Database) -> None:
    count = MOST_TRIALS + 10
    bench = Breakdown(database, rules=rules_of(count))
    names = break_many(bench, count)
    schedule(database)

    while not bench.claims():
        bench.turn()
    assert len(bench.claims()) == MOST_TRIALS

    bench.work(2 * TURNS)
    assert len(bench.sent_to(*names)) == len(names)
