"""A cut begins only if the operation is still as it was when it was looked at."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from sqlalchemy import update

from retrier.domain.retry_operation import Cancel, Order, Pause, RetryOperation, RetryOperationState
from retrier.store.engine.database import Database
from retrier.store.engine.transaction import ConcurrentChange, Transaction
from retrier.store.marking import cut_batch
from retrier.store.operation_lists import find_operation
from retrier.store.operation_requests import CreatedOperation
from retrier.store.operations import begin_cut
from retrier.store.schema import retry_operations
from tests.support.bench import Bench
from tests.support.databases import empty
from tests.support.halting import DEADLINE, halted

LOOKED = "ORDER BY retry_operations.cancel_asked DESC"
"""By this the look at the operations is known; there is one without any lock before it."""
CLAIMED = "INSERT INTO failed_message_retries"

ASK: dict[str, Callable[[Bench], CreatedOperation]] = {
    "all": lambda bench: bench.ask_all(),
    "by id": lambda bench: bench.ask(sorted(bench.statuses())),
}
HALTS = {
    "all, before its claims": ("all", LOOKED, 2),
    "all, after its claims": ("all", CLAIMED, 1),
    "by id": ("by id", LOOKED, 2),
}
ORDERS: list[tuple[Order, str]] = [(Pause(), "paused"), (Cancel(), "cancelled")]
OVER = {"state": "cancelled", "completed_at": retry_operations.c.created_at}


@pytest.fixture
def bench(database: Database) -> Bench:
    """Give a bench with two failed messages."""
    made = Bench(database)
    made.fail(2)
    return made


@pytest.fixture
def on_postgres(shared_postgres: Database) -> Bench:
    """Give such a bench on the PostgreSQL database of the run."""
    empty(shared_postgres)
    made = Bench(shared_postgres)
    made.fail(2)
    return made


def looked_at(bench: Bench, created: CreatedOperation) -> RetryOperation:
    found = find_operation(bench.db, created.operation_id)
    assert found is not None
    return found.operation


def change(bench: Bench, **values: object) -> None:
    with bench.db.engine.begin() as conn:
        conn.execute(update(retry_operations).values(values))


def begin(bench: Bench, operation: RetryOperation) -> None:
    """Begin a cut, and say at once if somebody else was quicker."""
    with bench.db.engine.begin() as conn:
        begin_cut(Transaction(conn, bench.db.sql), operation)


@pytest.mark.parametrize(
    "values", [{"state": "paused"}, OVER, {"floor": 1}], ids=["paused", "cancelled", "cut"]
)
def test_a_cut_does_not_begin_if_the_operation_changed_since_it_was_looked_at(
    bench: Bench, values: dict[str, object]
) -> None:
    created = bench.ask_all()
    looked = looked_at(bench, created)
    change(bench, **values)
    before = bench.operation(created)

    with pytest.raises(ConcurrentChange):
        begin(bench, looked)

    assert bench.operation(created) == before


@pytest.mark.parametrize("state", ["paused", "cancelled", "completed"])
def test_a_cut_does_not_begin_off_an_operation_that_is_not_open(bench: Bench, state: str) -> None:
    created = bench.ask_all()
    change(bench, **(OVER | {"state": state} if state != "paused" else {"state": state}))

    with pytest.raises(ConcurrentChange):
        begin(bench, looked_at(bench, created))


def test_a_cut_begins_off_an_operation_that_is_as_it_was(bench: Bench) -> None:
    created = bench.ask_all()
    looked = looked_at(bench, created)

    begin(bench, looked)
    begin(bench, replace(looked, state=RetryOperationState.PREPARING))

    row = bench.operation(created)
    assert row["state"] == "preparing"
    assert row["last_cut"] >= row["started_at"]


@pytest.mark.parametrize("asked", ASK)
def test_no_batch_is_opened_for_an_operation_that_is_paused(bench: Bench, asked: str) -> None:
    ASK[asked](bench)
    change(bench, state="paused")

    lease = bench.context.lease
    assert cut_batch(bench.db, lease.fence, bench.context.retries.session_id) is None
    assert (bench.batches(), bench.claims()) == ([], {})


@pytest.mark.postgres
@pytest.mark.parametrize("halt", HALTS)
@pytest.mark.parametrize(("order", "state"), ORDERS, ids=["paused", "cancelled"])
def test_an_operation_that_is_stopped_between_look_and_cut_is_not_cut(
    on_postgres: Bench,
    slow: ThreadPoolExecutor,
    halt: str,
    order: Order,
    state: str,
) -> None:
    bench, (asked, reached_by, time) = on_postgres, HALTS[halt]
    created = ASK[asked](bench)

    with halted(bench.db, reached_by, time=time) as (reached, go_on):
        working = slow.submit(bench.turn)
        assert reached.wait(DEADLINE)
        bench.steer(created, order)
        go_on.set()
        working.result(DEADLINE)
    bench.work()

    assert (bench.batches(), bench.claims(), bench.sent()) == ([], {}, [])
    operation = bench.operation(created)
    assert (operation["state"], operation["floor"], operation["batches"]) == (state, 0, 0)


@pytest.mark.parametrize("order", [Pause(), Cancel()], ids=["paused", "cancelled"])
def test_a_cut_in_two_transactions_may_be_stopped_between_them(bench: Bench, order: Order) -> None:
    """The batch is alive then: a pause lets it go its way, a cancel releases it."""
    created = bench.ask(sorted(bench.statuses()))
    bench.at("marking.opened", lambda: bench.steer(created, order))

    bench.work()

    sent = 2 if order == Pause() else 0
    assert (len(bench.sent()), len(bench.claims()), bench.batches()) == (sent, sent, [])
    assert bench.operation(created)["state"] == ("paused" if sent else "cancelled")


@pytest.mark.parametrize("order", [Pause(), Cancel()], ids=["paused", "cancelled"])
def test_a_cut_that_finds_nothing_completes_no_operation_that_is_stopped_meanwhile(
    bench: Bench, order: Order
) -> None:
    # Given messages that are gone when they are to be claimed
    ids = sorted(bench.statuses())
    created = bench.ask(ids)
    bench.work()
    again = bench.ask_all()

    def stop() -> None:
        bench.steer(again, order)

    bench.at("marking.opened", stop)
    bench.work()

    at_once = bench.db.sql.marks_at_once
    stopped = "paused" if order == Pause() else "cancelled"
    assert bench.operation(created)["state"] == "completed"
    assert bench.operation(again)["state"] == ("completed" if at_once else stopped)


@pytest.mark.postgres
def test_an_operation_that_was_paused_in_between_goes_on_where_it_was(
    on_postgres: Bench, slow: ThreadPoolExecutor
) -> None:
    bench = on_postgres
    created = bench.ask_all()
    with halted(bench.db, CLAIMED) as (reached, go_on):
        working = slow.submit(bench.turn)
        assert reached.wait(DEADLINE)
        change(bench, state="paused")
        go_on.set()
        working.result(DEADLINE)

    change(bench, state="waiting")
    bench.work()

    row = bench.operation(created)
    assert (row["state"], row["forwarded"], row["batches"]) == ("completed", 2, 1)
