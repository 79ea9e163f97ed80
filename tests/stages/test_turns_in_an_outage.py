"""Many queues fail at once, and one that does not: its messages go with the next batch."""

import pytest

from retrier.domain.breakers import BreakerRules, BreakerTerms
from retrier.store.engine.database import Database
from tests.support.breaking import Breakdown
from tests.support.scheduling import LATER, LONG_AGO, schedule

BROKEN = tuple(f"broken-{number}" for number in range(12))
HEALTHY = "payments"
ROOM = 4
RULES = BreakerRules(default=BreakerTerms(least=50))
"""Terms that so few messages do not meet: no breaker opens here."""


@pytest.fixture
def bench(database: Database) -> Breakdown:
    """Return a bench with queues of which four messages each are due, and room for four in all."""
    bench = Breakdown(database, rules=RULES)
    for queue in BROKEN:
        bench.transport.broker.declare(queue)
        bench.fail(4, queue=queue)
    schedule(database, within=LONG_AGO)
    bench.per_second = ROOM * 5
    return bench


def cut(bench: Breakdown) -> list[str]:
    """Let the next batch be cut; return the queues of its messages."""
    bench.end_waits()
    while not bench.claims():
        bench.turn()
    return [bench.message(key)["queue"] for key in bench.claims()]


def let_all_come_back_once(bench: Breakdown) -> None:
    """Let each broken queue fail one retry; what came back is due later."""
    ids = [bench.fail(1, queue=queue)[0] for queue in BROKEN]
    bench.ask(ids)
    while len(bench.sent_to(*BROKEN)) < len(ids):
        bench.turn()
    while bench.batches():
        bench.turn()
    bench.come_back(ids)
    schedule(bench.db, ids, within=LATER)


def test_what_has_just_become_due_goes_with_the_next_batch(bench: Breakdown) -> None:
    schedule(bench.db, bench.fail(3, queue=HEALTHY))

    assert cut(bench).count(HEALTHY) == 1


def test_all_of_it_goes_where_the_retries_of_others_come_back(bench: Breakdown) -> None:
    let_all_come_back_once(bench)
    schedule(bench.db, bench.fail(2, queue=HEALTHY))

    assert cut(bench).count(HEALTHY) == 2


def test_these_have_half_of_the_room(bench: Breakdown) -> None:
    let_all_come_back_once(bench)
    schedule(bench.db, bench.fail(9, queue=HEALTHY))

    queues = cut(bench)

    assert len(queues) == ROOM
    assert queues.count(HEALTHY) == ROOM / 2
