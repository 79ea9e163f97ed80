"""Canaries: an operation sends its first messages alone, and goes on by what becomes of them."""

from dataclasses import dataclass

from retrier.domain.retry_operation import (
    BEFORE_THE_VERDICT,
    LOOK_AGAIN,
    OPEN_STATES,
    CanaryState,
    RetryOperation,
    RetryOperationState,
    RunningCanary,
    describe_canary,
    may_go_on,
    verdict_timeout,
)
from retrier.store.engine.transaction import Transaction
from retrier.store.queries.canaries import find_evidence
from retrier.store.tables import event_log, retry_operations
from retrier.store.tables import retry_operation_canaries as canaries
from retrier.store.tables.event_log import Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryJudged:
    """What became of a canary: `came_back` of `sent` messages did, and whether that was too many."""

    operation_id: str
    sent: int
    came_back: int
    passed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryHeld:
    """A canary cannot be judged yet; its operation says why."""

    operation_id: str


def wait_for(tx: Transaction, operation: RetryOperation, canary: RunningCanary) -> None:
    """Begin the wait for what comes back: the first messages are sent, and no batch is alive."""
    operation_id = operation.operation_id
    canaries.wait(tx, operation_id, tx.now + canary.wait)
    retry_operations.put_off(tx, operation_id, tx.now + canary.wait)
    seconds = canary.wait.total_seconds()
    sent = Entry(
        kind="canary_sent",
        text=f"the first {operation.sent} messages are sent: waiting {seconds:g} s for them",
        operation_id=operation_id,
    )
    event_log.append(tx, [sent])


def judge(
    tx: Transaction, operation: RetryOperation, canary: RunningCanary
) -> CanaryJudged | CanaryHeld:
    """Let the operation go on, or pause it, by how many of the first messages came back.

    Silence is no success while something may be unread: then it waits, and says why; in the end it
    is paused, for a person to decide.
    """
    operation_id, evidence = operation.operation_id, find_evidence(tx, operation)
    back, unread = evidence.came_back, evidence.unread
    few = may_go_on(canary, back)
    if few and unread is not None and tx.now < evidence.waited_until + verdict_timeout(canary):
        retry_operations.put_off(tx, operation_id, tx.now + LOOK_AGAIN)
        retry_operations.say_why(tx, operation_id, f"{BEFORE_THE_VERDICT}{unread}")
        return CanaryHeld(operation_id=operation_id)
    passed = few and unread is None
    state = CanaryState.PASSED if passed else CanaryState.FAILED
    canaries.move(tx, operation_id, CanaryState.WAITING, state, came_back=back)
    told = describe_canary(operation.sent, back)
    if few and not passed:
        told = f"{told} so far, and that is not all: {unread}"
    if passed:
        retry_operations.put_off(tx, operation_id, None)
        retry_operations.say_why(tx, operation_id, None)
    else:
        paused = {"state": RetryOperationState.PAUSED, "next_cut": None}
        reason = f"{told}: resume or cancel it"
        retry_operations.change(tx, operation_id, OPEN_STATES, {**paused, "reason": reason})
    judged = Entry(kind=f"canary_{state}", text=told, operation_id=operation_id)
    event_log.append(tx, [judged])
    return CanaryJudged(
        operation_id=operation_id, sent=operation.sent, came_back=back, passed=passed
    )
