"""The watch of the lease: how long each transaction of the processor has held it, and what was slow."""

from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

from retrier.events.event import Event
from retrier.events.processor import LeaseHeld, LeaseHeldLong
from retrier.processor.lease import Lease
from retrier.store.engine.database import Database
from retrier.store.engine.transaction import LeaseHold
from retrier.store.lease import Fence, Holder, acquire_lease
from retrier.store.upkeep import record_staging_ids
from tests.support.bench import Bench
from tests.support.frozen_clock import FrozenClock

HOUR = timedelta(hours=1)
HOLDER = Holder(session_id=str(uuid4()), host="here", pid=1, process_started="then")
SLOW = LeaseHold(
    verb="cut_batch", seconds=0.6, statements=3, slowest_statement=None, slowest_seconds=0.5
)


def is_dead(_holder: Holder) -> bool:
    return True


def test_each_transaction_is_told(database: Database) -> None:
    told: list[Event] = []
    bench = Bench(database)
    lease = Lease(database, HOLDER, HOUR, bench.clock, is_dead, told.append)
    lease.acquire()

    lease.renew_if_due()
    bench.clock.advance(HOUR.total_seconds())
    lease.renew_if_due()

    assert [each.verb for each in told if isinstance(each, LeaseHeld)] == ["renew_lease"]


def test_one_that_was_slow_is_warned_of_once_a_minute(database: Database) -> None:
    told: list[Event] = []
    clock = FrozenClock()
    lease = Lease(database, HOLDER, HOUR, clock, is_dead, told.append)
    lease.acquire()

    for seconds in (0, 1, 60):
        clock.advance(seconds)
        lease.fence.told(SLOW)
    lease.fence.told(replace(SLOW, verb="another", seconds=0.5))

    assert [type(each) for each in told].count(LeaseHeldLong) == 2


def test_the_statement_that_took_longest_is_named(database: Database) -> None:
    holds: list[LeaseHold] = []
    fence = acquire_lease(database, HOLDER, HOUR, is_dead)
    assert isinstance(fence, Fence)

    record_staging_ids(database, replace(fence, told=holds.append), [str(uuid4())])

    (hold,) = holds
    assert (hold.verb, hold.statements) == ("record_staging_ids", 1)
    assert "INTO staging_ids" in hold.slowest
    assert 0 <= hold.slowest_seconds <= hold.seconds
