"""The database's clock is set back by an hour: times it gave before lie in the future now."""

from datetime import timedelta
from uuid import uuid4

import pytest
from sqlalchemy import Table, and_, select, update

from retrier.domain.breakers import BreakerState, parse_key
from retrier.domain.retry_operation import RetryTerms, SetRate, Steered
from retrier.processor.lease import Lease
from retrier.store.breakers import set_breaker
from retrier.store.engine.database import Database
from retrier.store.lease import Holder
from retrier.store.processor_work import is_work_due, time_until_due
from retrier.store.schema import (
    breakers,
    failed_message_retries,
    failed_messages,
    processor_lease,
    retry_batches,
    retry_operations,
)
from retrier.store.wait_reasons import count_waits_anew, is_any_wait_of_later
from tests.support.bench import STAGING, Bench, Killed
from tests.support.scheduling import schedule

HOUR = timedelta(hours=1)
LEASE = 15


@pytest.fixture
def bench(database: Database) -> Bench:
    return Bench(database, window=2)


def shift_batches(bench: Bench) -> None:
    with bench.db.engine.begin() as conn:
        row = conn.execute(select(retry_batches)).one()
        later = {"not_before": row.not_before + HOUR, "modified_at": row.modified_at + HOUR}
        conn.execute(update(retry_batches).values(later))


def shift_claims(bench: Bench) -> None:
    claims = failed_message_retries.c
    stamped = select(claims.number, claims.sending_since).where(claims.sending_since.is_not(None))
    with bench.db.engine.begin() as conn:
        for number, since in conn.execute(stamped).all():
            key = claims.number == number
            later = since + HOUR
            conn.execute(update(failed_message_retries).where(key).values(sending_since=later))


def shift_lease(bench: Bench) -> None:
    with bench.db.engine.begin() as conn:
        row = conn.execute(select(processor_lease)).one()
        later = {"expires_at": row.expires_at + HOUR, "renewed_at": row.renewed_at + HOUR}
        conn.execute(update(processor_lease).values(later))


def other_lease(bench: Bench) -> Lease:
    """Let a process on another host hold the lease."""
    bench.context.lease.release()
    holder = Holder(session_id=str(uuid4()), host="there", pid=2, process_started="then")
    other = Lease(bench.db, holder, timedelta(seconds=LEASE), bench.clock, lambda _holder: False)
    other.acquire()
    return other


def test_a_batch_that_backs_off_does_not_wait_for_that_hour(bench: Bench) -> None:
    bench.fail(2)
    bench.ask_all()
    bench.crash_at = lambda point: (
        bench.transport.broker.queues[STAGING].ready.clear()
        if point == "staging.committed"
        else None
    )
    while bench.told.names.count("batch.moved") < 3:
        bench.take_turn()
    bench.crash_at = lambda _point: None
    assert not is_work_due(bench.db)

    shift_batches(bench)

    assert is_work_due(bench.db)
    while bench.batches():
        bench.take_turn()
    assert len(bench.sent()) == 2


def test_the_lease_of_a_process_that_died_meanwhile_is_taken_when_its_length_is_over(
    bench: Bench,
) -> None:
    other_lease(bench)
    shift_lease(bench)

    bench.take_turn()
    bench.clock.advance(LEASE - 1)
    bench.take_turn()
    assert not bench.context.lease.held

    bench.clock.advance(2)
    bench.take_turn()
    assert bench.context.lease.held


def test_a_lease_that_is_renewed_is_left_to_its_holder(bench: Bench) -> None:
    other = other_lease(bench)

    for _ in range(10):
        shift_lease(bench)
        bench.clock.advance(LEASE / 2)
        bench.take_turn()
        other.renew_if_due()

    assert not bench.context.lease.held


def test_what_was_stamped_before_is_in_doubt_and_goes_alone(bench: Bench) -> None:
    bench.fail(2)
    bench.ask_all()
    bench.kill_at("forwarding.stamped")
    with pytest.raises(Killed):
        bench.work()
    bench.restart()
    shift_claims(bench)
    alone: list[str] = []
    bench.crash_at = alone.append

    bench.work()

    assert alone.count("forwarding.sent_alone") == 2


def shift(bench: Bench, table: Table, *names: str) -> None:
    """Let these times have been written by a clock that was an hour ahead."""
    with bench.db.engine.begin() as conn:
        keys = table.primary_key.columns.values()
        for row in conn.execute(select(table)).mappings().all():
            later = {name: row[name] + HOUR for name in names if row[name] is not None}
            one = and_(*(key == row[key.name] for key in keys))
            conn.execute(update(table).where(one).values(later))


def count_anew(bench: Bench) -> int:
    return count_waits_anew(bench.db, bench.context.lease.fence)


def next_due(bench: Bench) -> timedelta:
    due = time_until_due(bench.db)
    assert due is not None
    return due


def test_a_scheduled_message_waits_no_longer_than_its_policy_asked_for(bench: Bench) -> None:
    schedule(bench.db, bench.fail(), within=timedelta(minutes=3))
    shift(bench, failed_messages, "retry_at", "last_modified")
    assert next_due(bench) > timedelta(minutes=30)

    assert is_any_wait_of_later(bench.db)
    assert count_anew(bench) == 1

    assert next_due(bench) <= timedelta(minutes=3)
    assert not is_any_wait_of_later(bench.db)


def test_a_message_scheduled_after_that_is_left_as_it_is(bench: Bench) -> None:
    schedule(bench.db, bench.fail(), within=HOUR)

    assert not is_any_wait_of_later(bench.db)
    assert count_anew(bench) == 0


def test_an_operation_with_a_delay_waits_no_longer_than_was_asked_for(bench: Bench) -> None:
    bench.fail()
    bench.ask_all(RetryTerms(delay=timedelta(minutes=3)))
    shift(bench, retry_operations, "not_before", "created_at", "modified_at")

    assert is_any_wait_of_later(bench.db)
    assert count_anew(bench) == 1

    assert next_due(bench) <= timedelta(minutes=3)
    assert not is_any_wait_of_later(bench.db)


def test_an_operation_that_was_asked_for_at_a_time_waits_for_that_time(bench: Bench) -> None:
    bench.fail()
    bench.ask_all(RetryTerms(not_before=bench.db.read(lambda tx: tx.now) + HOUR))
    shift(bench, retry_operations, "created_at", "modified_at")

    assert not is_any_wait_of_later(bench.db)
    assert count_anew(bench) == 0


def test_an_operation_with_a_rate_goes_on_with_its_rate(bench: Bench) -> None:
    bench.fail(4)
    bench.ask_all(RetryTerms(rate=5))
    bench.take_turn()
    while bench.batches():
        bench.take_turn()
    shift(bench, retry_operations, "next_cut", "modified_at")

    while not bench.batches():
        bench.take_turn()

    assert next_due(bench) <= timedelta(seconds=1)


def test_the_same_rate_once_more_frees_an_operation(bench: Bench) -> None:
    bench.fail(4)
    asked = bench.ask_all(RetryTerms(rate=5))
    bench.take_turn()
    now = bench.db.read(lambda tx: tx.now)
    with bench.db.engine.begin() as conn:
        conn.execute(update(retry_operations).values(next_cut=now + HOUR))

    steered = bench.steer(asked, SetRate(5))

    assert isinstance(steered, Steered)
    assert steered.changed
    assert bench.operation(asked)["next_cut"] is None


def test_a_breaker_opened_by_hand_stays_open_no_longer_than_was_said(bench: Bench) -> None:
    minutes = timedelta(minutes=3)
    key, state = parse_key("orders"), BreakerState.OPEN
    set_breaker(bench.db, key, state, lasts=minutes, who="ada", why=None)
    shift(bench, breakers, "hand_until", "changed_at")

    assert is_any_wait_of_later(bench.db)
    assert count_anew(bench) == 1

    (found,) = bench.rows(select(breakers))
    assert found["hand_until"] - found["changed_at"] == minutes
    assert next_due(bench) <= minutes
    assert not is_any_wait_of_later(bench.db)
