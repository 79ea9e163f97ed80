"""Edits that wait for a second person: nothing is sent before one approves, and nothing is held."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from itertools import product
from typing import Any

import pytest
from sqlalchemy import select

from retrier.domain.approval import (
    ApprovalRefusal,
    ApprovalRules,
    ApprovalTerms,
    ApprovedAct,
    Decided,
    Decider,
    Verdict,
)
from retrier.domain.edits import AskedEdit, Changes, EditRefusal, EditRefused, EditRequest
from retrier.domain.retry_operation import Cancel, RetryRequest, RetryTerms, RetryType
from retrier.domain.selection import Selection
from retrier.store.approval_acts import decide_approval, lapse_approvals
from retrier.store.engine.database import Database
from retrier.store.operation_requests import (
    CreatedOperation,
    create_operation,
    steer_operation,
)
from retrier.store.schema import retry_operations
from retrier.store.verification import verify_store
from tests.support.bench import QUEUE, Bench, Killed
from tests.support.disposing import make_dead
from tests.support.editing import BODY, edit_row, edits_of, versions
from tests.support.effects import BATCH_POINTS
from tests.support.factories import FAILED_AT, failure

BOB = Decider(identity="bob", shown="bob (10.0.0.8)", may_edit=True)
DAY = timedelta(hours=24)
PATCH = '{"headers":{"set":{"Shop.Tenant":"south"}}}'
LATER = FAILED_AT + timedelta(hours=1)


@pytest.fixture
def bench(database: Database) -> Bench:
    return Bench(database)


@pytest.fixture
def unique_id(bench: Bench) -> str:
    return bench.fail()[0]


def ask(
    bench: Bench,
    unique_id: str,
    who: str = "ada",
    lapses_after: timedelta = DAY,
    key: str | None = None,
    **changes: Any,
) -> AskedEdit | EditRefused:
    """Let somebody ask for an edit, where edits wait for a second person."""
    rules = ApprovalRules(acts=frozenset({ApprovedAct.EDIT}), lapses_after=lapses_after)
    edits = edits_of(bench, ApprovalTerms(rules=rules, asked_as=who))
    changed = Changes(**({"text": BODY} | changes))
    return edits.ask(
        EditRequest(unique_message_id=unique_id, changes=changed, who=who, idempotency_key=key)
    )


def asking(bench: Bench, unique_id: str, **more: Any) -> AskedEdit:
    found = ask(bench, unique_id, **more)
    assert isinstance(found, AskedEdit), found
    return found


def decide(
    bench: Bench, asked: AskedEdit, verdict: Verdict = Verdict.APPROVE, who: Decider = BOB
) -> Decided | ApprovalRefusal | EditRefused:
    return decide_approval(bench.db, asked.operation_id, verdict, who)


def broken(bench: Bench) -> list[str]:
    return [each.rule for each in verify_store(bench.db).rules if each.broken]


def test_nothing_is_sent_before_it_is_approved(bench: Bench, unique_id: str) -> None:
    asked = asking(bench, unique_id)
    bench.work()

    assert asked.is_asking
    assert versions(bench, unique_id) == ([], [])
    assert bench.claims() == {}
    assert broken(bench) == []


def test_the_edited_version_is_sent_once_it_is_approved(bench: Bench, unique_id: str) -> None:
    asked = asking(bench, unique_id)

    decided = decide(bench, asked)
    bench.work()

    assert decided == Decided(operation_id=asked.operation_id, changed=True)
    assert versions(bench, unique_id) == ([BODY.encode()], [])
    assert bench.message(unique_id)["resolution"] == "edited"
    assert edit_row(bench, asked.edit_id)["state"] == "sent"
    assert broken(bench) == []


def test_its_operation_is_completed(bench: Bench, unique_id: str) -> None:
    asked = asking(bench, unique_id)
    decide(bench, asked)

    bench.work()

    (row,) = bench.rows(select(retry_operations))
    assert (row["state"], row["forwarded"], row["batches"]) == ("completed", 1, 1)


def test_approved_twice_it_is_sent_once(bench: Bench, unique_id: str) -> None:
    asked = asking(bench, unique_id)
    decide(bench, asked)

    assert decide(bench, asked) == Decided(operation_id=asked.operation_id, changed=False)
    bench.work()

    assert versions(bench, unique_id) == ([BODY.encode()], [])


def test_who_may_not_edit_decides_nothing(bench: Bench, unique_id: str) -> None:
    operator = Decider(identity="bob", shown="bob")
    asked = asking(bench, unique_id)

    assert decide(bench, asked, who=operator) is ApprovalRefusal.ROLE
    assert decide(bench, asked, Verdict.REFUSE, who=operator) is ApprovalRefusal.ROLE


def test_refused_it_is_dropped_and_the_message_stays(bench: Bench, unique_id: str) -> None:
    asked = asking(bench, unique_id)

    decide(bench, asked, Verdict.REFUSE)
    bench.work()

    row = edit_row(bench, asked.edit_id)
    assert (row["state"], row["reason"]) == (
        "dropped",
        "its approval was refused by bob (10.0.0.8)",
    )
    assert bench.statuses() == {unique_id: "unresolved"}
    assert bench.rows(select(retry_operations.c.state))[0]["state"] == "cancelled"
    assert broken(bench) == []


def test_nobody_approved_it_in_time(bench: Bench, unique_id: str) -> None:
    asked = asking(bench, unique_id, lapses_after=timedelta())

    lapse_approvals(bench.db)
    bench.work()

    assert edit_row(bench, asked.edit_id)["state"] == "dropped"
    assert decide(bench, asked) is ApprovalRefusal.LAPSED
    assert broken(bench) == []


def test_who_asked_may_cancel_it(bench: Bench, unique_id: str) -> None:
    asked = asking(bench, unique_id)

    steer_operation(bench.db, asked.operation_id, [Cancel()], "ada")
    bench.work()

    row = edit_row(bench, asked.edit_id)
    assert (row["state"], row["reason"]) == ("dropped", "ada has cancelled it")
    assert broken(bench) == []


def test_a_second_edit_is_told_who_has_asked(bench: Bench, unique_id: str) -> None:
    asking(bench, unique_id)

    found = ask(bench, unique_id, who="eve")

    assert found == EditRefused(why=EditRefusal.ASKED, about="asked for by ada", who="ada")


def test_the_same_request_again_is_the_same_edit(bench: Bench, unique_id: str) -> None:
    first, second = (ask(bench, unique_id, key="one") for _ in range(2))

    assert first == second


def test_the_message_can_be_retried_as_it_is_meanwhile(bench: Bench, unique_id: str) -> None:
    # It is not held for a day: what was decided about it counts, and the edit is told.
    asked = asking(bench, unique_id)
    bench.ask([unique_id])
    bench.work()

    found = decide(bench, asked)
    bench.work()

    assert found == EditRefused(why=EditRefusal.ISSUED)
    assert [len(each) for each in versions(bench, unique_id)] == [0, 1]
    assert broken(bench) == []


def test_of_an_archived_message_it_is_approved_after_it_is_taken_back(
    bench: Bench, unique_id: str
) -> None:
    asked = asking(bench, unique_id)
    bench.set_status(unique_id, "archived")

    before = decide(bench, asked)
    bench.set_status(unique_id, "unresolved")
    after = decide(bench, asked)

    assert before == EditRefused(why=EditRefusal.ARCHIVED)
    assert isinstance(after, Decided)


def test_of_a_message_that_failed_again_it_is_not_approved(bench: Bench, unique_id: str) -> None:
    asked = asking(bench, unique_id)
    before = bench.message(unique_id)
    again = {"message_id": before["message_id"], "body": before["body"]}
    bench.receive(failure(queue=QUEUE, time_of_failure=LATER, **again))

    found = decide(bench, asked)

    assert found == EditRefused(why=EditRefusal.CHANGED)


def test_a_dead_message_is_sent_if_who_asked_has_said_so(bench: Bench, unique_id: str) -> None:
    make_dead(bench.db, unique_id)
    asked = asking(bench, unique_id, dead=True)

    decide(bench, asked)
    bench.work()

    assert versions(bench, unique_id) == ([BODY.encode()], [])


def test_what_is_declared_dead_meanwhile_is_not_sent(bench: Bench, unique_id: str) -> None:
    asked = asking(bench, unique_id)
    make_dead(bench.db, unique_id)

    assert decide(bench, asked) == EditRefused(why=EditRefusal.DEAD)


def test_where_everything_waits_an_edit_does_too() -> None:
    assert ApprovalRules(over=0).asks_for_edit
    assert not ApprovalRules(over=1, acts=frozenset({ApprovedAct.ALL})).asks_for_edit


class TestAPatchOfMany:
    def ask(self, bench: Bench, patch: str | None) -> CreatedOperation:
        rules = ApprovalRules(acts=frozenset({ApprovedAct.EDIT}))
        request = RetryRequest(
            retry_type=RetryType.ALL,
            selection=Selection(),
            originator="retry of all",
            requested_by="ada",
            terms=RetryTerms(patch=patch),
            approval=ApprovalTerms(rules=rules, asked_as="ada"),
        )
        return create_operation(bench.db, request)

    def test_waits_as_an_edit_does(self, bench: Bench, unique_id: str) -> None:
        created = self.ask(bench, PATCH)
        bench.work()

        assert created.is_asking
        assert bench.statuses() == {unique_id: "unresolved"}

    def test_is_decided_by_who_may_edit(self, bench: Bench, unique_id: str) -> None:
        created = self.ask(bench, PATCH)
        operator = Decider(identity="bob", shown="bob")

        refused = decide_approval(bench.db, created.operation_id, Verdict.APPROVE, operator)
        decide_approval(bench.db, created.operation_id, Verdict.APPROVE, BOB)
        bench.work()

        assert refused is ApprovalRefusal.ROLE
        assert bench.statuses() == {unique_id: "retry_issued"}

    def test_is_what_waits_and_no_retry_without_one(self, bench: Bench, unique_id: str) -> None:
        created = self.ask(bench, None)

        assert unique_id
        assert not created.is_asking


POINTS = [point for point in BATCH_POINTS if point not in ("marking.opened", "marking.claimed")]


@pytest.mark.parametrize(("point", "time"), list(product(POINTS, (1, 2))))
def test_a_process_that_is_killed_while_it_sends_what_was_approved_sends_one_version(
    bench: Bench, unique_id: str, point: str, time: int
) -> None:
    asked = asking(bench, unique_id)
    decide(bench, asked)
    bench.ask_all()
    bench.kill_at(point, time=time)

    doubt = 0
    try:
        bench.work()
    except Killed:
        doubt = len(bench.in_doubt())
    bench.restart()
    bench.work()

    edited, plain = versions(bench, unique_id)
    assert plain == []
    assert 1 <= len(edited) <= 1 + doubt
    assert edit_row(bench, asked.edit_id)["state"] == "sent"
    assert broken(bench) == []


def test_of_two_who_approve_at_once_one_begins_it(bench: Bench, unique_id: str) -> None:
    asked = asking(bench, unique_id)
    eve = Decider(identity="eve", shown="eve", may_edit=True)

    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda who: decide(bench, asked, who=who), (BOB, eve)))
    bench.work()

    assert sorted(type(each).__name__ for each in found) == ["ApprovalRefusal", "Decided"]
    assert versions(bench, unique_id) == ([BODY.encode()], [])
