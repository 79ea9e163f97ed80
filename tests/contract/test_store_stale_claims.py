"""Claims of messages that changed as they were claimed: never sent, and gone after staging.

Marking locks no message, so it may claim one that was archived, or failed again, in that instant.
"""

from typing import Any

import pytest

from retrier.domain.archive_operation import Act
from retrier.store.archive import Action
from retrier.store.engine.database import Database
from retrier.store.forwarding import load_claimed
from retrier.store.schema import ended_retries, retry_operation_messages
from retrier.store.verification import verify_store
from tests.contract.store_retries import STAGED, bring_to
from tests.contract.store_rows import again, claims, rows, set_columns
from tests.support.acting import apply_action
from tests.support.bench import QUEUE, Bench
from tests.support.factories import failure, unique_id

LATER_FAILURE = 1_000
ANOTHER = "7e125000-0000-4000-8000-000000000001"
CHANGES: dict[str, dict[str, Any]] = {
    "archived": {"status": "archived"},
    "resolved": {"status": "resolved", "resolution": "by_hand"},
    "failed again": {"failure_seq": LATER_FAILURE},
}
EITHER = pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())


@pytest.fixture
def bench(database: Database) -> Bench:
    return Bench(database)


def broken_rules(bench: Bench) -> list[str]:
    return [rule.rule for rule in verify_store(bench.db).rules if rule.broken]


@EITHER
def test_no_copy_is_made_of_such_a_message(bench: Bench, change: dict[str, Any]) -> None:
    stale, kept = bench.fail(2)
    bench.ask_all()
    bench.turn()
    set_columns(bench.db, stale, **change)

    (batch,) = bench.batches()
    loaded = load_claimed(bench.db, batch["batch_id"])

    assert [each.unique_message_id for each in loaded] == [kept]
    assert broken_rules(bench) == []


@EITHER
@pytest.mark.parametrize("point", ["marking.moved", "staging.published"])
def test_it_is_not_sent_and_its_claim_is_gone(
    bench: Bench, change: dict[str, Any], point: str
) -> None:
    stale, kept = bench.fail(2)
    created = bench.ask_all()
    bench.at(point, lambda: set_columns(bench.db, stale, **change))

    bench.work()

    assert bench.sent() == [kept]
    assert set(claims(bench.db)) == {kept}
    row = bench.operation(created)
    assert (row["state"], row["forwarded"], row["skipped"]) == ("completed", 1, 1)
    assert rows(bench.db, ended_retries) == []
    assert broken_rules(bench) == []


@EITHER
def test_a_batch_of_nothing_else_is_gone_with_it(bench: Bench, change: dict[str, Any]) -> None:
    (stale,) = bench.fail()
    created = bench.ask_all()
    bench.at("marking.moved", lambda: set_columns(bench.db, stale, **change))

    bench.work()

    assert (bench.sent(), bench.batches(), claims(bench.db)) == ([], [], {})
    assert bench.operation(created)["state"] == "completed"


def test_such_a_message_can_be_retried_as_soon_as_it_is_unresolved(bench: Bench) -> None:
    (key,) = bench.fail()
    bench.ask_all()
    bench.at("marking.moved", lambda: set_columns(bench.db, key, status="archived"))
    bench.work()

    apply_action(bench.db, Action(act=Act.UNARCHIVE, who="ada"), [key])
    created = bench.ask_all()
    bench.work()

    assert bench.operation(created)["forwarded"] == 1
    assert bench.sent() == [key]


def test_such_a_claim_is_none_to_what_arrives(bench: Bench) -> None:
    """A failure of another retry is held off by a claim in force, and newer than one that is not."""
    first = failure(queue=QUEUE)
    bench.receive(first)
    bench.ask_all()
    bench.turn()
    set_columns(bench.db, unique_id(first), failure_seq=LATER_FAILURE)

    stamped = {"stamped_id": unique_id(first), "retry_id": ANOTHER}
    newer = again(first, queue=QUEUE, exception_type="Newer", **stamped)
    bench.receive(newer)

    assert bench.message(unique_id(first))["exception_type"] == "Newer"
    assert claims(bench.db) == {}
    bench.work()
    assert bench.sent() == []


@pytest.mark.parametrize("own", [True, False], ids=["its own", "another"])
def test_a_message_whose_retry_is_issued_is_loaded_only_for_that_retry(
    bench: Bench, *, own: bool
) -> None:
    retry = bring_to(bench, STAGED)
    if not own:
        set_columns(bench.db, retry.key, last_retry_id=ANOTHER)
    (batch,) = bench.batches()

    loaded = load_claimed(bench.db, batch["batch_id"])

    assert [each.unique_message_id for each in loaded] == ([retry.key] if own else [])


@EITHER
def test_one_that_was_named_says_why_it_was_skipped(bench: Bench, change: dict[str, Any]) -> None:
    stale, kept = bench.fail(2)
    created = bench.ask([stale, kept])
    bench.at("marking.moved", lambda: set_columns(bench.db, stale, **change))

    bench.work()

    reasons = {
        row["unique_message_id"]: row["skipped_because"]
        for row in rows(bench.db, retry_operation_messages)
        if row["operation_id"] == created.operation_id
    }
    assert reasons == {stale: "it changed after it was claimed", kept: None}
