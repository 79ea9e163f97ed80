"""Approvals in the store: what is bent is found, and an approval goes with its operation."""

import pytest
from sqlalchemy import delete, select, update

from retrier.domain.approval import ApprovalRules, ApprovalTerms, Decider, Verdict
from retrier.domain.retry_operation import RetryRequest, RetryType
from retrier.domain.selection import Selection
from retrier.store.approval_acts import decide_approval
from retrier.store.engine.database import Database
from retrier.store.operation_lists import list_asking
from retrier.store.operation_requests import CreatedOperation, create_operation
from retrier.store.schema import approvals, retry_operations
from retrier.store.verification import verify_store
from retrier.store.verification_rules import APPROVAL_RULES
from tests.support.bench import Bench

BOB = Decider(identity="bob", shown="bob")


@pytest.fixture
def bench(database: Database) -> Bench:
    return Bench(database)


def ask(bench: Bench) -> CreatedOperation:
    bench.fail(2)
    request = RetryRequest(
        retry_type=RetryType.ALL,
        selection=Selection(),
        originator="retry of all",
        requested_by="ada",
        approval=ApprovalTerms(rules=ApprovalRules(over=1), asked_as="ada"),
    )
    return create_operation(bench.db, request)


def test_an_operation_that_is_cut_before_it_is_approved_is_found(bench: Bench) -> None:
    # Given one that was sent, and whose approval is taken back behind its back
    created = ask(bench)
    decide_approval(bench.db, created.operation_id, Verdict.APPROVE, BOB)
    bench.work()
    with bench.db.engine.begin() as conn:
        asked = {"state": "asked", "decided_at": None, "decided_by": None, "decided_as": None}
        conn.execute(update(approvals).values(asked))

    assert {each.rule for each in verify_store(bench.db).rules if each.broken} == {*APPROVAL_RULES}


def test_what_waits_is_listed_until_somebody_decides(bench: Bench) -> None:
    created = ask(bench)

    before, _ = list_asking(bench.db)
    decide_approval(bench.db, created.operation_id, Verdict.REFUSE, BOB)
    after, _ = list_asking(bench.db)

    assert [each.operation_id for each in before] == [created.operation_id]
    assert after == []


def test_an_approval_goes_with_its_operation(bench: Bench) -> None:
    ask(bench)

    with bench.db.engine.begin() as conn:
        conn.execute(delete(retry_operations))

    assert bench.rows(select(approvals)) == []
