"""The database's clock is set back by an hour: times it gave before lie in the future now."""

from datetime import timedelta
from uuid import uuid4

import pytest
from sqlalchemy import select, update

from retrier.processor.lease import Lease
from retrier.store.engine.database import Database
from retrier.store.queries.next_work import is_work_due
from retrier.store.schema import failed_message_retries, processor_lease, retry_batches
from retrier.store.verbs.leases import Holder
from tests.support.bench import STAGING, Bench, Killed

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
