"""Marking on PostgreSQL: no message is locked, and what changes meanwhile is dropped at staging."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select, update

from retrier.domain.archive_operation import Act
from retrier.domain.failed_message import Failure
from retrier.store.archive import Action
from retrier.store.dead_messages import declare_dead
from retrier.store.engine.database import Database
from retrier.store.forwarding import load_claimed
from retrier.store.operation_requests import CreatedOperation
from retrier.store.schema import (
    failed_message_retries,
    failed_messages,
    retry_batches,
    retry_operation_messages,
)
from retrier.store.verification import verify_store
from tests.contract.store_rows import again
from tests.contract.test_store_concurrency import count_waiting
from tests.support.acting import apply_action
from tests.support.bench import QUEUE, Bench
from tests.support.databases import empty
from tests.support.factories import FAILED_AT, failure, unique_id
from tests.support.halting import DEADLINE, halted
from tests.support.waiting import wait_until

pytestmark = pytest.mark.postgres

LATER = FAILED_AT + timedelta(minutes=5)
THEIRS = "7e125000-0000-4000-8000-000000000001"

CHANGES: dict[str, dict[str, object]] = {
    "archived": {"status": "archived"},
    "resolved": {"status": "resolved", "resolution": "by_hand"},
    "failed again": {"failure_seq": 1_000},
}
"""What a transaction that is not committed yet may do to a message."""

Meanwhile = Callable[[Bench, Failure], object]

MEANWHILE: dict[str, Meanwhile] = {
    "archived": lambda bench, first: apply_action(
        bench.db, Action(act=Act.ARCHIVE, who="ada"), [unique_id(first)]
    ),
    "resolved": lambda bench, first: apply_action(
        bench.db, Action(act=Act.RESOLVE, who="ada"), [unique_id(first)]
    ),
    "failed again": lambda bench, first: bench.receive(
        again(first, queue=QUEUE, time_of_failure=LATER)
    ),
    "declared dead": lambda bench, first: declare_dead(
        bench.db, unique_id(first), why="hopeless", who="ada"
    ),
}

ASK: dict[str, Callable[[Bench], CreatedOperation]] = {
    "all": lambda bench: bench.ask_all(),
    "by id": lambda bench: bench.ask(sorted(bench.statuses())),
}
LOOKS = {
    "all": "ORDER BY failed_messages.failure_seq",
    "by id": "ORDER BY retry_operation_messages.position",
}
"""By this the look at what was asked for is known."""
CLAIMED = "INSERT INTO failed_message_retries"

asked_either_way = pytest.mark.parametrize("asked", ASK)


@pytest.fixture
def bench(shared_postgres: Database) -> Bench:
    """Give a bench on the PostgreSQL database of the run, empty."""
    empty(shared_postgres)
    return Bench(shared_postgres)


def two_failed(bench: Bench) -> tuple[Failure, str]:
    """Let two messages fail; return the one that will change, and the id of the other."""
    first = failure(queue=QUEUE)
    bench.receive(first)
    (kept,) = bench.fail()
    return first, kept


def counted(bench: Bench, operation: CreatedOperation) -> tuple[Any, ...]:
    row = bench.operation(operation)
    return row["state"], row["forwarded"], row["skipped"], row["failed"]


def their_claim(bench: Bench, first: Failure) -> dict[str, Any]:
    message = bench.message(unique_id(first))
    names = ("batch_id", "operation_id", "retry_id")
    return {"number": message["number"], "failure_seq": 1, **dict.fromkeys(names, THEIRS)}


def to_be_staged(bench: Bench) -> list[str]:
    """Return the messages that staging makes copies of."""
    (batch,) = bench.batches()
    return [each.unique_message_id for each in load_claimed(bench.db, batch["batch_id"])]


def broken_rules(bench: Bench) -> list[str]:
    return [rule.rule for rule in verify_store(bench.db).rules if rule.broken]


@asked_either_way
@pytest.mark.parametrize("meanwhile", MEANWHILE)
def test_a_message_that_changes_between_look_and_claim_is_never_sent(
    bench: Bench, slow: ThreadPoolExecutor, meanwhile: str, asked: str
) -> None:
    first, kept = two_failed(bench)
    operation = ASK[asked](bench)

    with halted(bench.db, LOOKS[asked]) as (reached, go_on):
        working = slow.submit(bench.turn)
        assert reached.wait(DEADLINE)
        MEANWHILE[meanwhile](bench, first)
        go_on.set()
        working.result(DEADLINE)

    assert to_be_staged(bench) == [kept]
    assert broken_rules(bench) == []
    bench.work()
    assert bench.sent() == [kept]
    assert set(bench.claims()) == {kept}
    assert counted(bench, operation) == ("completed", 1, 1, 0)


@asked_either_way
@pytest.mark.parametrize("change", CHANGES)
def test_a_message_that_somebody_has_locked_is_not_waited_for(
    bench: Bench, slow: ThreadPoolExecutor, change: str, asked: str
) -> None:
    first, kept = two_failed(bench)
    operation = ASK[asked](bench)
    row = failed_messages.c.unique_message_id == unique_id(first)

    with bench.db.engine.begin() as conn:
        conn.execute(update(failed_messages).where(row).values(CHANGES[change]))
        slow.submit(bench.turn).result(DEADLINE)

    assert set(bench.claims()) == {unique_id(first), kept}
    assert to_be_staged(bench) == [kept]
    bench.work()
    assert bench.sent() == [kept]
    assert set(bench.claims()) == {kept}
    assert counted(bench, operation) == ("completed", 1, 1, 0)


@pytest.mark.parametrize("change", CHANGES)
def test_a_message_that_changes_while_its_copy_is_made_is_dropped_before_it_is_forwarded(
    bench: Bench, change: str
) -> None:
    first, kept = two_failed(bench)
    operation = bench.ask_all()
    row = failed_messages.c.unique_message_id == unique_id(first)

    def act() -> None:
        with bench.db.engine.begin() as conn:
            conn.execute(update(failed_messages).where(row).values(CHANGES[change]))

    bench.at("staging.published", act)
    bench.work()

    assert bench.sent() == [kept]
    assert set(bench.claims()) == {kept}
    assert counted(bench, operation) == ("completed", 1, 1, 0)


def test_a_message_that_another_batch_claims_after_it_was_selected_is_left_to_it(
    bench: Bench, slow: ThreadPoolExecutor
) -> None:
    first, kept = two_failed(bench)
    ASK["by id"](bench)

    with halted(bench.db, LOOKS["by id"]) as (reached, go_on):
        working = slow.submit(bench.turn)
        assert reached.wait(DEADLINE)
        theirs = their_claim(bench, first)
        with bench.db.engine.begin() as conn:
            conn.execute(failed_message_retries.insert().values(theirs))
        go_on.set()
        working.result(DEADLINE)

    (batch,) = bench.rows(select(retry_batches))
    claimed_by = {key: row["batch_id"] for key, row in bench.claims().items()}
    assert claimed_by == {unique_id(first): THEIRS, kept: batch["batch_id"]}
    reasons = bench.rows(select(retry_operation_messages.c.skipped_because))
    assert {row["skipped_because"] for row in reasons} == {
        None,
        "another retry has claimed it already",
    }


@asked_either_way
def test_a_claim_that_is_not_committed_yet_is_waited_for_and_wins(
    bench: Bench, slow: ThreadPoolExecutor, asked: str
) -> None:
    first, kept = two_failed(bench)
    ASK[asked](bench)
    theirs = their_claim(bench, first)

    with bench.db.engine.begin() as conn:
        conn.execute(failed_message_retries.insert().values(theirs))
        working = slow.submit(bench.turn)
        wait_until(lambda: count_waiting(bench.db) == 1, DEADLINE)
    working.result(DEADLINE)

    (batch,) = bench.rows(select(retry_batches))
    claimed_by = {key: row["batch_id"] for key, row in bench.claims().items()}
    assert claimed_by == {unique_id(first): THEIRS, kept: batch["batch_id"]}
    assert batch["initial_size"] == 1


def test_a_bulk_is_marked_in_one_transaction(bench: Bench, slow: ThreadPoolExecutor) -> None:
    two_failed(bench)
    created = bench.ask_all()

    with halted(bench.db, CLAIMED) as (reached, go_on):
        working = slow.submit(bench.turn)
        assert reached.wait(DEADLINE)
        meanwhile = bench.batches(), bench.claims(), bench.operation(created)["floor"]
        go_on.set()
        working.result(DEADLINE)

    (batch,) = bench.batches()
    assert meanwhile == ([], {}, 0)
    assert (batch["status"], batch["initial_size"], len(bench.claims())) == ("staging", 2, 2)
    assert bench.operation(created)["floor"] == 2
