"""Marking on PostgreSQL: what changes between the look at a selection and its locks is not claimed."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select, update

from retrier.domain.failed_message import Failure
from retrier.domain.ways_out import Act
from retrier.store.engine.database import Database
from retrier.store.verbs.asking import CreatedOperation
from retrier.store.schema import (
    failed_message_retries,
    failed_messages,
    retry_batches,
    retry_operation_messages,
)
from retrier.store.verbs.ways_out import Asked, take_way_out
from tests.contract.store_rows import again, rows
from tests.contract.test_store_concurrency import count_waiting
from tests.contract.test_store_cut_off import DEADLINE, SLOW, halted
from tests.support.bench import QUEUE, Bench
from tests.support.databases import empty
from tests.support.factories import FAILED_AT, failure, unique_id
from tests.support.waiting import wait_until

pytestmark = pytest.mark.postgres

LATER = FAILED_AT + timedelta(minutes=5)

CHANGES: dict[str, dict[str, object]] = {
    "archived": {"status": "archived"},
    "failed again": {"failure_seq": 1_000},
}
"""What a transaction that marking waits for may do to a message."""

Meanwhile = Callable[[Bench, Failure], object]

CLAIMED = "another retry has claimed it already"
REASONS = {"archived": "it is archived", "failed again": "it failed again"}
MEANWHILE: dict[str, Meanwhile] = {
    "archived": lambda bench, first: take_way_out(
        bench.db, Asked(act=Act.ARCHIVE, who="ada"), [unique_id(first)]
    ),
    "failed again": lambda bench, first: bench.receive(
        again(first, queue=QUEUE, time_of_failure=LATER)
    ),
}
LOOK = "ORDER BY retry_operation_messages.position"
"""By this the look at the messages that somebody named is known. Of all others there is no look
before the locks: one statement does both."""


@pytest.fixture
def bench(shared_postgres: Database) -> Bench:
    """Give a bench on the PostgreSQL database of the run, empty."""
    empty(shared_postgres)
    return Bench(shared_postgres)


@pytest.fixture
def slow() -> Iterator[ThreadPoolExecutor]:
    """Give a pool whose thread can be halted."""
    with ThreadPoolExecutor(1, thread_name_prefix=SLOW) as pool:
        yield pool


def two_failed(bench: Bench) -> tuple[Failure, str]:
    """Let two messages fail; return the one that will change, and the id of the other."""
    first = failure(queue=QUEUE)
    bench.receive(first)
    (kept,) = bench.fail()
    return first, kept


def counted(bench: Bench, operation: CreatedOperation) -> tuple[Any, ...]:
    row = bench.operation(operation)
    return row["state"], row["forwarded"], row["skipped"], row["failed"]


def ask_by_id(bench: Bench) -> CreatedOperation:
    return bench.ask(sorted(bench.statuses()))


@pytest.mark.parametrize("meanwhile", MEANWHILE)
def test_a_message_that_changes_after_it_was_selected_is_not_claimed(
    bench: Bench, slow: ThreadPoolExecutor, meanwhile: str
) -> None:
    first, kept = two_failed(bench)
    operation = ask_by_id(bench)

    with halted(bench.db, LOOK) as (reached, go_on):
        working = slow.submit(bench.turn)
        assert reached.wait(DEADLINE)
        MEANWHILE[meanwhile](bench, first)
        go_on.set()
        working.result(DEADLINE)

    assert set(bench.claims()) == {kept}
    bench.work()
    assert counted(bench, operation) == ("completed", 1, 1, 0)


def test_a_message_that_another_batch_claims_after_it_was_selected_is_left_to_it(
    bench: Bench, slow: ThreadPoolExecutor
) -> None:
    first, kept = two_failed(bench)
    ask_by_id(bench)
    theirs = {"unique_message_id": unique_id(first), "batch_id": "theirs"}

    with halted(bench.db, LOOK) as (reached, go_on):
        working = slow.submit(bench.turn)
        assert reached.wait(DEADLINE)
        with bench.db.engine.begin() as conn:
            values = {**theirs, "operation_id": "theirs", "retry_id": "theirs"}
            conn.execute(failed_message_retries.insert().values(values))
        go_on.set()
        working.result(DEADLINE)

    (batch,) = bench.rows(select(retry_batches))
    claimed_by = {key: row["batch_id"] for key, row in bench.claims().items()}
    assert claimed_by == {unique_id(first): "theirs", kept: batch["batch_id"]}
    reasons = bench.rows(select(retry_operation_messages.c.skipped_because))
    assert {row["skipped_because"] for row in reasons} == {None, CLAIMED}


@pytest.mark.parametrize("change", CHANGES)
def test_a_message_whose_change_is_not_committed_yet_is_waited_for(
    bench: Bench, slow: ThreadPoolExecutor, change: str
) -> None:
    first, kept = two_failed(bench)
    operation = bench.ask_all()
    row = failed_messages.c.unique_message_id == unique_id(first)

    with bench.db.engine.begin() as conn:
        conn.execute(update(failed_messages).where(row).values(CHANGES[change]))
        working = slow.submit(bench.turn)
        wait_until(lambda: count_waiting(bench.db) == 1, DEADLINE)
    working.result(DEADLINE)

    assert set(bench.claims()) == {kept}
    bench.work()
    assert counted(bench, operation) == ("completed", 1, 1, 0)


def test_a_claim_that_is_not_committed_yet_is_waited_for_and_wins(
    bench: Bench, slow: ThreadPoolExecutor
) -> None:
    first, kept = two_failed(bench)
    bench.ask_all()
    theirs = dict.fromkeys(("batch_id", "operation_id", "retry_id"), "theirs")

    with bench.db.engine.begin() as conn:
        claim = {"unique_message_id": unique_id(first), **theirs}
        conn.execute(failed_message_retries.insert().values(claim))
        working = slow.submit(bench.turn)
        wait_until(lambda: count_waiting(bench.db) == 1, DEADLINE)
    working.result(DEADLINE)

    (batch,) = bench.rows(select(retry_batches))
    claimed_by = {key: row["batch_id"] for key, row in bench.claims().items()}
    assert claimed_by == {unique_id(first): "theirs", kept: batch["batch_id"]}
    assert batch["initial_size"] == 1


@pytest.mark.parametrize("meanwhile", MEANWHILE)
def test_a_named_message_that_changes_after_it_was_looked_at_says_why_it_was_skipped(
    bench: Bench, slow: ThreadPoolExecutor, meanwhile: str
) -> None:
    first, _ = two_failed(bench)
    ask_by_id(bench)

    with halted(bench.db, LOOK) as (reached, go_on):
        working = slow.submit(bench.turn)
        assert reached.wait(DEADLINE)
        MEANWHILE[meanwhile](bench, first)
        go_on.set()
        working.result(DEADLINE)

    reasons = {
        each["unique_message_id"]: each["skipped_because"]
        for each in rows(bench.db, retry_operation_messages)
    }
    assert REASONS[meanwhile] in str(reasons[unique_id(first)])
