"""Operations that wait for a second person: nothing of them is sent before one approves."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from retrier.domain.access import Access, How
from retrier.domain.approval import (
    ApprovalRefusal,
    ApprovalRules,
    ApprovalState,
    ApprovalTerms,
    Decided,
    Decider,
    Verdict,
)
from retrier.domain.retry_operation import (
    Cancel,
    Pause,
    Resume,
    RetryRequest,
    RetryTerms,
    RetryType,
    SetRate,
    SteeringRefusal,
)
from retrier.domain.selection import Selection
from retrier.gateway import Gateway
from retrier.store.approval_acts import decide_approval, is_any_over, lapse_approvals
from retrier.store.dead_messages import declare_dead
from retrier.store.engine.database import Database
from retrier.store.event_log import EventFilter, list_newest_events
from retrier.store.operation_lists import find_operation
from retrier.store.operation_requests import CreatedOperation, create_operation
from retrier.store.processor_work import is_work_due
from retrier.store.selections import CHUNK
from retrier.store.verification import verify_store
from tests.support.bench import Bench
from tests.support.imports import make_imports

COUNT = 3
ADA, BOB = (Decider(identity=name, shown=f"{name} (10.0.0.7)") for name in ("ada", "bob"))


@pytest.fixture
def bench(database: Database) -> Bench:
    return Bench(database)


def ask(
    bench: Bench, over: int = 2, lapses_after: timedelta = timedelta(hours=24)
) -> CreatedOperation:
    """Let ada ask for a retry of all, of which more than `over` wait for a second person."""
    rules = ApprovalRules(over=over, lapses_after=lapses_after)
    request = RetryRequest(
        retry_type=RetryType.ALL,
        selection=Selection(),
        originator="retry of all",
        requested_by="ada (10.0.0.7)",
        approval=ApprovalTerms(rules=rules, asked_as="ada"),
    )
    return create_operation(bench.db, request)


def decide(
    bench: Bench, created: CreatedOperation, verdict: Verdict, who: Decider = BOB
) -> Decided | ApprovalRefusal:
    return decide_approval(bench.db, created.operation_id, verdict, who)


def state(bench: Bench, created: CreatedOperation) -> tuple[str, ApprovalState]:
    found = find_operation(bench.db, created.operation_id)
    assert found is not None
    assert found.operation.approval is not None
    return found.operation.state.value, found.operation.approval.state


def kinds(bench: Bench, created: CreatedOperation) -> list[str]:
    events = list_newest_events(bench.db, 20, EventFilter(operation_id=created.operation_id))
    return [each.kind for each in events][::-1]


def broken(bench: Bench) -> list[str]:
    return [each.rule for each in verify_store(bench.db).rules if each.broken]


def test_nothing_of_it_is_sent_before_it_is_approved(bench: Bench) -> None:
    bench.fail(COUNT)
    created = ask(bench)

    bench.work()
    bench.restart()
    bench.work()

    assert (bench.sent(), bench.batches()) == ([], [])
    assert state(bench, created) == ("paused", ApprovalState.ASKED)
    assert not is_work_due(bench.db)
    assert broken(bench) == []


def test_all_of_it_is_sent_once_it_is_approved_and_nothing_that_failed_since(bench: Bench) -> None:
    ids = bench.fail(COUNT)
    created = ask(bench)
    bench.fail(COUNT)

    decide(bench, created, Verdict.APPROVE)
    bench.work()

    assert bench.sent() == ids
    assert state(bench, created) == ("completed", ApprovalState.APPROVED)
    expected = ["retry_asked", "asked_for_approval", "approved"]
    assert kinds(bench, created)[:3] == expected
    assert broken(bench) == []


def test_no_more_than_the_limit_waits_for_nobody(bench: Bench) -> None:
    ids = bench.fail(COUNT)

    created = ask(bench, over=COUNT)
    bench.work()

    assert not created.is_asking
    assert bench.sent() == ids


def test_who_asked_cannot_approve(bench: Bench) -> None:
    bench.fail(COUNT)
    created = ask(bench)

    assert decide(bench, created, Verdict.APPROVE, ADA) is ApprovalRefusal.OWN
    assert state(bench, created) == ("paused", ApprovalState.ASKED)


def test_somebody_unknown_cannot_approve(bench: Bench) -> None:
    bench.fail(COUNT)
    created = ask(bench)
    nobody = Decider(identity="", shown="somebody")

    assert decide(bench, created, Verdict.APPROVE, nobody) is ApprovalRefusal.NOBODY


def test_another_plan_is_not_approved(bench: Bench) -> None:
    bench.fail(COUNT)
    created = ask(bench)
    mistaken = Decider(identity="bob", shown="bob", plan_hash="0" * 64)

    assert decide(bench, created, Verdict.APPROVE, mistaken) is ApprovalRefusal.OTHER_PLAN


def test_what_is_refused_is_cancelled_with_the_reason(bench: Bench) -> None:
    bench.fail(COUNT)
    created = ask(bench)

    decide(bench, created, Verdict.REFUSE)
    bench.work()

    assert bench.sent() == []
    assert state(bench, created) == ("cancelled", ApprovalState.REFUSED)
    assert bench.operation(created)["reason"] == "its approval was refused by bob (10.0.0.7)"
    assert "approval_refused" in kinds(bench, created)
    assert decide(bench, created, Verdict.APPROVE) is ApprovalRefusal.REFUSED
    assert broken(bench) == []


def test_the_same_verdict_again_changes_nothing(bench: Bench) -> None:
    bench.fail(COUNT)
    created = ask(bench)

    first = decide(bench, created, Verdict.APPROVE)
    second = decide(bench, created, Verdict.APPROVE)

    assert isinstance(first, Decided)
    assert first.changed
    assert isinstance(second, Decided)
    assert not second.changed
    assert kinds(bench, created).count("approved") == 1


def test_what_nobody_approves_in_time_lapses_and_is_cancelled(bench: Bench) -> None:
    bench.fail(COUNT)
    created = ask(bench, lapses_after=timedelta(seconds=0))

    assert is_any_over(bench.db)
    assert decide(bench, created, Verdict.APPROVE) is ApprovalRefusal.LAPSED
    assert lapse_approvals(bench.db) == (created.operation_id,)
    bench.work()

    assert bench.sent() == []
    assert state(bench, created) == ("cancelled", ApprovalState.LAPSED)
    assert bench.operation(created)["reason"] == "nobody approved it within 0 hours"
    assert "approval_lapsed" in kinds(bench, created)
    assert not is_any_over(bench.db)
    assert broken(bench) == []


def test_before_its_time_nothing_lapses(bench: Bench) -> None:
    bench.fail(COUNT)
    created = ask(bench)

    assert lapse_approvals(bench.db) == ()
    assert state(bench, created) == ("paused", ApprovalState.ASKED)


@pytest.mark.parametrize("order", [Pause(), Resume()])
def test_it_is_neither_resumed_nor_paused_while_it_waits(
    bench: Bench, order: Pause | Resume
) -> None:
    bench.fail(COUNT)
    created = ask(bench)

    assert bench.steer(created, order) is SteeringRefusal.NOT_APPROVED
    assert bench.steer(created, SetRate(5), order) is SteeringRefusal.NOT_APPROVED
    bench.work()

    assert bench.sent() == []
    assert bench.operation(created)["rate"] is None


def test_once_it_is_approved_it_is_paused_and_resumed_as_any_other(bench: Bench) -> None:
    ids = bench.fail(COUNT)
    created = ask(bench)
    decide(bench, created, Verdict.APPROVE)

    bench.steer(created, Pause())
    bench.work()
    assert bench.sent() == []
    bench.steer(created, Resume())
    bench.work()

    assert bench.sent() == ids


def test_who_asked_may_cancel_it_and_then_nobody_can_approve_it(bench: Bench) -> None:
    bench.fail(COUNT)
    created = ask(bench)

    bench.steer(created, Cancel())

    assert decide(bench, created, Verdict.APPROVE) is ApprovalRefusal.LAPSED
    assert broken(bench) == []
    bench.work()
    assert state(bench, created) == ("cancelled", ApprovalState.LAPSED)


def test_an_operation_that_was_not_asked_for_so_cannot_be_approved(bench: Bench) -> None:
    bench.fail(COUNT)
    created = bench.ask_all(RetryTerms(rate=1))

    assert decide(bench, created, Verdict.APPROVE) is ApprovalRefusal.NOT_ASKED


def test_of_two_who_decide_at_once_one_is_taken(bench: Bench) -> None:
    bench.fail(COUNT)
    created = ask(bench)
    eve = Decider(identity="eve", shown="eve")

    with ThreadPoolExecutor(2) as pool:
        approved = pool.submit(decide, bench, created, Verdict.APPROVE, BOB)
        refused = pool.submit(decide, bench, created, Verdict.REFUSE, eve)
        answers = [approved.result(), refused.result()]
    bench.work()

    taken = [each for each in answers if isinstance(each, Decided)]
    assert len(taken) == 1
    is_approved = isinstance(answers[0], Decided)
    assert len(bench.sent()) == (COUNT if is_approved else 0)
    assert broken(bench) == []


def pending(bench: Bench, count: int) -> None:
    """Send so many messages, of which nothing is heard."""
    bench.fail(count)
    bench.ask_all()
    bench.work()


def retry_again(bench: Bench, request: RetryRequest, selection: Selection | None) -> Sequence[str]:
    """Let ada retry pending retries again where more than two wait for a second person."""
    approval = ApprovalRules(over=2)
    gateway = Gateway(bench.db, lambda: None, imports=make_imports(bench.db), approval=approval)
    ada = Access(name="ada", how=How.PROXY)
    return gateway.of(ada).retry_again(request, selection).operation_ids


def request_of(ids: Sequence[str]) -> RetryRequest:
    return RetryRequest(
        retry_type=RetryType.MULTIPLE_MESSAGES,
        selection=Selection(ids=tuple(ids)),
        originator="retry of pending retries",
        requested_by="ada",
    )


def test_pending_retries_are_sent_again_once_they_are_approved(bench: Bench) -> None:
    pending(bench, COUNT)
    sent = bench.sent()

    (operation,) = retry_again(bench, request_of(()), Selection(pending=True))
    bench.work()
    assert bench.sent() == sent
    decide_approval(bench.db, operation, Verdict.APPROVE, BOB)
    bench.work()

    assert bench.sent() == [*sent, *sent]


def test_each_part_of_a_large_request_waits_also_one_that_is_small(bench: Bench) -> None:
    # Given one more than fits into one transaction
    ids = bench.fail(CHUNK + 1)

    parts = retry_again(bench, request_of(ids), None)
    bench.work()

    found = [find_operation(bench.db, each) for each in parts]
    assert [each.operation.total for each in found if each] == [CHUNK, 1]
    assert [each.operation.is_asking for each in found if each] == [True, True]
    assert bench.sent() == []


def test_a_dead_message_that_is_revived_waits_where_each_message_does(bench: Bench) -> None:
    (key,) = bench.fail()
    declare_dead(bench.db, key, why="gone", who="ada")
    rules = ApprovalRules(over=0)
    gateway = Gateway(bench.db, lambda: None, imports=make_imports(bench.db), approval=rules)
    ada = Access(name="ada", how=How.PROXY)

    created = gateway.of(ada).revive(request_of([key]), key)
    bench.work()

    assert isinstance(created, CreatedOperation)
    assert created.is_asking
    assert bench.sent() == []
