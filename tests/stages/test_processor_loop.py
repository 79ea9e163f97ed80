"""The processor's loop: who may run it, what it says of its troubles, and how long it waits."""

import time
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from threading import Thread
from uuid import uuid4

import pytest
from sqlalchemy import select, update

from retrier.errors import BrokerUnavailable, LeaseLost, StagingQueueUnusable
from retrier.processor.lease import Lease
from retrier.store.engine.database import Database
from retrier.store.lease import Holder
from retrier.store.schema import processor_lease, retry_operations
from retrier.transport.rabbitmq.connection import ConnectionRefusal
from tests.support.bench import Bench
from tests.support.flaky_database import FlakyDatabase
from tests.support.waiting import wait_until


@pytest.fixture
def bench(database: Database) -> Bench:
    return Bench(database, window=2)


def told(bench: Bench) -> Counter[str]:
    return Counter(bench.told.names)


def run_in_thread(bench: Bench) -> Thread:
    thread = Thread(target=bench.processor.run)
    thread.start()
    return thread


def end(bench: Bench, thread: Thread) -> None:
    bench.context.stop.set()
    bench.wake.set()
    thread.join(10)


def test_a_broker_that_is_down_is_told_once_and_not_per_try(bench: Bench) -> None:
    bench.fail(1)
    bench.ask_all()
    bench.transport.go_down()

    for _ in range(20):
        bench.take_turn()
        bench.end_waits()

    assert told(bench)["broker.unreachable"] == 1


def test_nothing_has_recovered_while_a_batch_still_waits_for_the_broker(bench: Bench) -> None:
    bench.fail(1)
    bench.ask_all()
    bench.transport.go_down("connection refused")

    for _ in range(20):
        bench.take_turn()

    assert told(bench)["processor.recovered"] == 0
    assert bench.processor.reason == "connection refused"


def test_a_broker_that_is_back_ends_the_reason(bench: Bench) -> None:
    ids = bench.fail(1)
    bench.ask_all()
    bench.transport.go_down()
    for _ in range(3):
        bench.take_turn()

    bench.transport.come_up()
    bench.work()

    assert bench.sent() == ids
    assert bench.processor.reason is None
    assert told(bench)["processor.recovered"] == 1


def without_broker(bench: Bench, seconds: float) -> None:
    """Let the broker be out of reach for so long, with work waiting for it."""
    bench.ask_all()
    bench.transport.go_down("no route")
    for pause in (0, seconds):
        bench.clock.advance(pause)
        for _ in range(3):
            bench.take_turn()
            bench.end_waits()


def test_a_processor_without_the_broker_leads_on_for_the_length_of_its_lease(bench: Bench) -> None:
    bench.fail(1)

    without_broker(bench, bench.context.lease.seconds - 1)

    assert bench.context.lease.held
    assert told(bench)["processor.gave_way"] == 0


def test_a_processor_that_is_without_the_broker_for_longer_gives_way_to_others(
    bench: Bench,
) -> None:
    bench.fail(1)

    without_broker(bench, bench.context.lease.seconds)

    assert not bench.context.lease.held
    (lease,) = bench.rows(select(processor_lease))
    assert lease["session_id"] is None
    assert told(bench)["processor.gave_way"] == 1
    assert told(bench)["broker.unreachable"] == 1


def test_one_that_gave_way_leads_again_when_it_reaches_the_broker(bench: Bench) -> None:
    ids = bench.fail(1)
    without_broker(bench, bench.context.lease.seconds)

    bench.transport.come_up()
    bench.work()

    assert bench.sent() == ids
    assert told(bench)["processor.lease_acquired"] == 1


def test_another_kind_of_trouble_is_told_anew(bench: Bench) -> None:
    bench.fail(1)
    bench.ask_all()
    bench.transport.fail("transport.publisher", BrokerUnavailable("refused"), times=2)
    bench.transport.fail("transport.publisher", StagingQueueUnusable("not ours"), times=2)

    bench.work()

    assert told(bench)["broker.unreachable"] == 1
    assert told(bench)["staging.unusable"] == 1
    assert told(bench)["processor.recovered"] == 1


def test_a_broker_that_gives_one_reason_after_the_other_is_told_once(bench: Bench) -> None:
    bench.fail(1)
    bench.ask_all()
    bench.turn()

    for _ in range(5):
        for error in (
            ConnectionRefusal("shutting down", 320, "shutting down"),
            BrokerUnavailable("reset"),
        ):
            bench.transport.fail("transport.publisher", error, times=1)
            bench.take_turn()
            bench.end_waits()

    assert told(bench)["broker.unreachable"] == 1
    assert bench.processor.reason == "reset"


def test_each_failure_in_a_row_makes_the_wait_longer(bench: Bench) -> None:
    bench.fail(1)
    bench.ask_all()
    bench.turn()
    bench.transport.go_down()

    waits = []
    for _ in range(7):
        waits.append(bench.take_turn())
        bench.end_waits()

    assert waits == [0.5, 1.0, 2.0, 5.0, 10.0, 10.0, 10.0]


def test_a_staging_queue_of_somebody_else_is_tried_every_half_minute(bench: Bench) -> None:
    bench.fail(1)
    bench.ask_all()
    bench.turn()
    unusable = StagingQueueUnusable("not ours")
    bench.transport.fail("queues.declare_staging_queue", unusable, times=3)

    waits = [bench.take_turn() for _ in range(3)]

    assert waits == [30.0, 30.0, 30.0]
    assert told(bench)["staging.unusable"] == 1


def test_an_unforeseen_error_is_told_and_survived(bench: Bench) -> None:
    ids = bench.fail(1)
    bench.ask_all()
    bench.transport.fail("queues.purge", ZeroDivisionError("a bug"), times=3)

    bench.work()

    assert told(bench)["processor.turn_failed"] == 1
    assert bench.sent() == ids


def test_a_database_that_is_away_is_told_once(database: Database) -> None:
    flaky = FlakyDatabase(database)
    bench = Bench(flaky)
    ids = bench.fail(1)
    bench.ask_all()

    flaky.refuse("read", times=5)
    bench.work()

    assert bench.sent() == ids
    assert told(bench)["database.unreachable"] == 1


def test_a_database_that_is_back_is_noticed_while_a_batch_waits(database: Database) -> None:
    flaky = FlakyDatabase(database)
    bench = Bench(flaky)
    bench.fail(1)
    bench.ask_all()
    bench.turn()
    bench.transport.go_down()
    bench.take_turn()
    flaky.refuse("read")
    bench.take_turn()

    bench.take_turn()

    assert bench.processor.reason is None


def test_a_processor_with_nothing_to_do_writes_nothing(database: Database) -> None:
    flaky = FlakyDatabase(database)
    bench = Bench(flaky)
    bench.ask(bench.fail(1))
    bench.work()
    written: list[str] = []

    flaky.before = lambda verb: None if verb == "read" else written.append(verb)
    bench.take_turn()

    assert written == []


def test_a_wake_up_does_not_cut_a_back_off_short(bench: Bench) -> None:
    bench.fail(1)
    bench.ask_all()
    tries: list[float] = []

    def go_down() -> None:
        # Timed where they are made: this thread may be late, and would measure too little.
        bench.transport.before_call = lambda _name: tries.append(time.monotonic())
        bench.transport.go_down()

    bench.at("staging.committed", go_down)
    thread = run_in_thread(bench)

    def tried_again() -> bool:
        bench.wake.set()
        return len(tries) > 1

    wait_until(tried_again, 10)
    end(bench, thread)

    first, second, *_ = tries
    assert second - first > 0.4


def test_a_wake_up_ends_an_idle_wait(bench: Bench) -> None:
    thread = run_in_thread(bench)
    ids = bench.fail(1)

    bench.ask_all()
    bench.wake.set()
    wait_until(lambda: bench.sent() == ids, 30)
    end(bench, thread)

    assert not thread.is_alive()


def test_why_a_processor_waits_can_be_seen_as_soon_as_it_is_told(bench: Bench) -> None:
    seen: list[str | None] = []
    bench.lose_lease()
    bench.context.lease.lose()
    bench.at("processor.waiting_for_lease", lambda: seen.append(bench.processor.reason))

    bench.take_turn()

    assert ["another processor holds the lease" in str(each) for each in seen] == [True]


def test_a_second_processor_waits_and_says_so_once(bench: Bench) -> None:
    bench.lose_lease()
    bench.context.lease.lose()

    for _ in range(5):
        bench.take_turn()

    assert told(bench)["processor.waiting_for_lease"] == 1
    assert "another processor holds the lease" in str(bench.processor.reason)


def test_a_second_processor_takes_over_when_the_first_hands_back_its_lease(bench: Bench) -> None:
    ids = bench.fail(1)
    bench.ask_all()
    other = bench.lose_lease()
    for _ in range(3):
        bench.take_turn()

    other.release()
    bench.work()

    assert bench.sent() == ids


@pytest.mark.parametrize("point", ["forwarding.stamped", "staging.published", "staging.committed"])
def test_a_lease_lost_before_a_window_publishes_and_acks_nothing(bench: Bench, point: str) -> None:
    bench.fail(5)
    bench.ask_all()

    bench.at(point, bench.lose_lease)
    for _ in range(10):
        bench.take_turn()

    assert bench.sent() == []
    assert bench.transport.acked == []
    assert bench.transport.connected() == 0


def test_a_lease_lost_during_a_window_costs_at_most_that_window(bench: Bench) -> None:
    ids = bench.fail(6)
    bench.ask_all()
    others = []
    bench.at("forwarding.published", lambda: others.append(bench.lose_lease()))
    for _ in range(10):
        bench.take_turn()

    others[0].release()
    bench.work()

    sent = bench.sent()
    assert set(sent) == set(ids)
    assert len(sent) - len(set(sent)) <= 2


def test_a_lease_lost_while_waiting_for_confirms_ends_the_wait(bench: Bench) -> None:
    bench.fail(2)
    bench.ask_all()

    def lose_then_wait(name: str) -> None:
        if name == "publisher.publish" and bench.claims():
            bench.lose_lease()
            with pytest.raises(LeaseLost):
                bench.context.lease.renew_if_due()

    bench.transport.before_call = once_in_forwarding(bench, lose_then_wait)
    for _ in range(8):
        bench.take_turn()

    assert bench.transport.acked == []
    assert told(bench)["processor.lease_lost"] == 1


def once_in_forwarding(bench: Bench, act: Callable[[str], None]) -> Callable[[str], None]:
    def look(name: str) -> None:
        if name == "publisher.publish" and bench.pointer():
            bench.transport.before_call = lambda _name: None
            act(name)

    return look


def test_a_loss_that_the_tick_found_is_known_to_whoever_waits_for_confirms(bench: Bench) -> None:
    bench.lose_lease()
    with pytest.raises(LeaseLost):
        bench.context.lease.renew_if_due()

    with pytest.raises(LeaseLost):
        bench.context.lease.check()


def test_a_process_that_lost_the_lease_does_not_hand_back_its_successors(bench: Bench) -> None:
    bench.lose_lease()

    bench.stop()

    (lease,) = bench.rows(select(processor_lease))
    assert lease["host"] == "there"
    assert lease["session_id"] is not None


def test_a_loss_that_the_tick_found_closes_the_connections(bench: Bench) -> None:
    bench.fail(5)
    bench.ask_all()
    while not bench.sent():
        bench.take_turn()

    bench.lose_lease()
    with pytest.raises(LeaseLost):
        bench.context.lease.renew_if_due()
    bench.take_turn()

    assert bench.transport.connected() == 0


def test_after_a_loss_that_the_tick_found_the_batch_goes_on_with_a_marker(bench: Bench) -> None:
    ids = bench.fail(6)
    bench.ask_all()

    def lose_and_win() -> None:
        other = bench.lose_lease()
        with pytest.raises(LeaseLost):
            bench.context.lease.renew_if_due()
        other.release()

    bench.at("forwarding.published", lose_and_win)
    bench.work()

    modes = [fields["counting"] for name, fields in bench.told.events if name == "batch.forwarding"]
    assert modes == [True, False]
    assert bench.sent() == ids


def test_a_lease_that_the_tick_loses_in_between_is_not_fresh(bench: Bench) -> None:
    class Raced(Lease):
        def renew_if_due(self) -> None:
            self.lose()
            super().renew_if_due()

    holder = Holder(session_id=str(uuid4()), host="here", pid=1, process_started="now")
    lease = Raced(bench.db, holder, timedelta(seconds=15), bench.clock, lambda _holder: True)
    lease.acquire()

    with pytest.raises(LeaseLost):
        lease.ensure_fresh()


def test_a_stop_closes_everything_and_hands_back_the_lease(bench: Bench) -> None:
    bench.fail(5)
    bench.ask_all()
    bench.at("staging.committed", bench.context.stop.set)

    bench.processor.run()

    (lease,) = bench.rows(select(processor_lease))
    assert bench.transport.connected() == 0
    assert lease["session_id"] is None


def test_an_idle_processor_sleeps_until_it_is_woken(bench: Bench) -> None:
    assert bench.take_turn() == bench.context.retries.idle_wait.total_seconds()


def test_an_idle_processor_does_not_oversleep_what_waits_for_its_time(bench: Bench) -> None:
    bench.fail(1)
    bench.ask_all()
    with bench.db.engine.begin() as conn:
        soon = bench.db.sql.now(conn) + timedelta(seconds=20)
        conn.execute(update(retry_operations).values(not_before=soon))

    assert 10 < bench.take_turn() <= 20


def test_a_batch_that_waits_for_the_broker_is_looked_at_soon(bench: Bench) -> None:
    # Given a broker that is away, and a batch that waits for its next try
    bench.fail(1)
    bench.ask_all()
    bench.transport.go_down()
    for _ in range(4):
        bench.take_turn()

    assert 0 < bench.take_turn() <= 10
