"""However much is configured or broken, a cut and its batch ask as many statements."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import insert

from retrier.domain.breakers import BreakerRules, BreakerState, BreakerTerms
from retrier.domain.retry_operation import RetryTerms
from retrier.domain.streams import LOOK_AT_ALL
from retrier.events.event import Event
from retrier.events.processor import LeaseHeld
from retrier.store.engine.database import Database
from retrier.store.holds import MOST_TRIALS, hold_by_breakers
from retrier.store.lease import LONGEST_HOLD
from retrier.store.marking import OpenedBatch, claim_messages, cut_batch
from retrier.store.processor_work import PLAIN_TURNS, CutForecast, look_at_next
from retrier.store.schema import breakers, retry_operations
from tests.support.bench import QUEUE
from tests.support.breaking import FEW, Breakdown
from tests.support.databases import empty
from tests.support.factories import failure
from tests.support.scheduling import schedule
from tests.support.statements import statements
from tests.support.streams import make_strict

FEW_ONES, MANY = 3, 60
TURNS = 8
THOUSAND = 1000
SLACK = 2
RENEWED = "UPDATE processor_lease"


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


def hold_many(bench: Breakdown, count: int) -> None:
    """Let two messages fail of each of so many strict streams."""
    bench.receive(*(failure(stream_id=str(each)) for each in range(count) for _ in range(2)))
    make_strict(bench.db)


def rules_of(count: int) -> BreakerRules:
    """Return a rule with a breaker for each queue, and one for the rest."""
    terms = BreakerTerms(window=20, least=4)
    return BreakerRules(default=FEW, rules={queue_of(number): terms for number in range(count)})


def asked(bench: Breakdown, is_over: Callable[[], bool]) -> Counter[str]:
    """Return how often each statement is asked until something is over.

    Not for so many turns: of these some look again for what waits, whenever its time has come.
    """
    with statements(bench.db) as noted:
        while not is_over():
            bench.turn()
    return Counter(noted)


def costs(database: Database, count: int, *, by_policy: bool) -> Counter[str]:
    """Let so many breakers be tried at once; return what was asked from their turn to the end."""
    empty(database)
    bench = Breakdown(database, rules=rules_of(count))
    names = break_many(bench, count)
    hold_many(bench, count)
    if by_policy:
        schedule(database)
    else:
        bench.ask_all(RetryTerms(rate=1000))

    return asked(bench, lambda: len(bench.sent_to(*names, QUEUE)) == 2 * count)


def test_many_breakers_that_are_tried_and_streams_that_hold_ask_no_more(database: Database) -> None:
    for by_policy in (True, False):
        few = costs(database, FEW_ONES, by_policy=by_policy)
        many = costs(database, MANY, by_policy=by_policy)

        # A batch that the turns have left short is filled by one statement more.
        assert (many - few).total() <= by_policy


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


@pytest.mark.alone
def test_a_thousand_of_each_hold_the_lease_no_longer(database: Database) -> None:
    """Breakers that are tried, streams that hold, rated operations, and rules; with some slack."""
    held: list[float] = []
    bench = Breakdown(database, rules=rules_of(THOUSAND))
    names = break_many(bench, THOUSAND)
    hold_many(bench, THOUSAND)
    schedule(database)
    ask_a_thousand_times(bench)

    watch(bench, lambda event: held.append(event.seconds))
    bench.work(60)

    assert len(bench.sent_to(*names)) > MOST_TRIALS / 2
    assert max(held) < SLACK * LONGEST_HOLD


def ask_a_thousand_times(bench: Breakdown) -> None:
    """Have a thousand rated operations, each for one queue."""
    row = bench.operation(bench.ask_all(RetryTerms(rate=1)))
    rows = [
        {**row, "operation_id": str(uuid4()), "selection": {"queue": queue_of(number)}}
        for number in range(THOUSAND)
    ]
    with bench.db.engine.begin() as conn:
        conn.execute(insert(retry_operations), rows)


def test_nothing_is_looked_for_while_the_lease_is_held(database: Database) -> None:
    bench = Breakdown(database, rules=rules_of(FEW_ONES))
    break_many(bench, FEW_ONES)
    hold_many(bench, FEW_ONES)
    schedule(database)
    cuts: list[Sequence[str]] = []

    with statements(database) as noted:

        def note(event: LeaseHeld) -> None:
            begun = max(place for place, each in enumerate(noted) if RENEWED in each)
            if event.verb in ("cut_batch", "claim_messages"):
                cuts.append(noted[begun:])

        watch(bench, note)
        bench.work(TURNS)

    assert cuts
    looks = [each for held in cuts for each in held if each.startswith("SELECT failed_messages")]
    assert looks == []


class TestWhatWasSeen:
    """Before the lease was held."""

    def test_is_not_taken_for_true_if_a_breaker_was_closed_meanwhile(
        self, database: Database
    ) -> None:
        bench = Breakdown(database, rules=rules_of(1))
        (queue,) = break_many(bench, 1)
        created = bench.ask_all()
        sight = look_at_next(database, PLAIN_TURNS, LOOK_AT_ALL, may_hold=True)
        assert sight is not None
        assert sight.cut.left_out == 2

        bench.set(queue, BreakerState.CLOSED)
        self.cut(bench, sight)

        assert len(bench.claims()) == 2
        assert bench.operation(created)["left_out"] == 0

    def test_is_not_taken_for_true_if_its_operation_was_cut_meanwhile(
        self, database: Database
    ) -> None:
        bench = Breakdown(database)
        bench.fail(2)
        bench.ask_all(RetryTerms(rate=1))
        sight = look_at_next(database, PLAIN_TURNS, LOOK_AT_ALL, may_hold=False)
        bench.work()
        (late,) = bench.fail()
        bench.ask_all()

        self.cut(bench, sight)

        assert set(bench.claims()) & {late} == {late}

    def cut(self, bench: Breakdown, sight: CutForecast | None) -> None:
        fence, session = bench.context.lease.fence, bench.context.retries.session_id
        opened = cut_batch(bench.db, fence, session, hold_by_breakers, sight=sight)
        if isinstance(opened, OpenedBatch):
            claim_messages(bench.db, fence, opened, hold_by_breakers)


def watch(bench: Breakdown, told: Callable[[LeaseHeld], None]) -> None:
    """Tell of each transaction from now on that has held the lease."""

    def emit(event: Event) -> None:
        if isinstance(event, LeaseHeld):
            told(event)

    bench.told_of_lease = emit
