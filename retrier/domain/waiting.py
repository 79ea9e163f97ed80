"""Why an operation waits, and when it will be done: as people are told."""

from datetime import datetime, timedelta

from retrier.domain.pacing import BEFORE_THE_VERDICT
from retrier.domain.retry_operation import (
    ALIVE,
    OPEN_STATES,
    CanaryState,
    RetryOperation,
    RetryOperationState,
)
from retrier.domain.schedule import Schedule
from retrier.domain.times import show_time


def why_it_waits(
    operation: RetryOperation, at: datetime, schedule: Schedule | None = None
) -> str | None:
    """Say in a sentence why nothing is cut off an operation at this time; None if nothing stops it.

    `at` is the database's time. The `schedule` is for the standing operation.
    """
    if operation.state not in ALIVE:
        return None
    if operation.cancel_asked:
        return "it was cancelled: only what may have been sent already is finished"
    if operation.state is RetryOperationState.PAUSED:
        return operation.reason or "it is paused"
    if operation.passed_over:
        return operation.reason
    if operation.not_before is not None and operation.not_before > at:
        return f"it was asked for not before {show_time(operation.not_before)}"
    return _wait_for_message(operation, at, schedule) or _wait_for_cut(operation, at)


def _wait_for_message(
    operation: RetryOperation, at: datetime, schedule: Schedule | None
) -> str | None:
    """Say when something is due, if it is the standing operation and has nothing to do."""
    if not is_resting(operation, at, schedule):
        return None
    due = None if schedule is None else schedule.next_at
    return "no message is scheduled" if due is None else f"the next is due at {show_time(due)}"


def is_resting(operation: RetryOperation, at: datetime, schedule: Schedule | None) -> bool:
    """Say whether it is the standing operation, and nothing is due."""
    waits = operation.is_standing and operation.state is RetryOperationState.WAITING
    due = None if schedule is None else schedule.next_at
    return waits and (due is None or due > at)


def _wait_for_cut(operation: RetryOperation, at: datetime) -> str | None:
    if (operation.reason or "").startswith(BEFORE_THE_VERDICT):
        return operation.reason
    if operation.next_cut is None or operation.next_cut <= at:
        return None
    until = show_time(operation.next_cut)
    canary = operation.canary
    if canary is not None and canary.state is CanaryState.WAITING:
        return f"its first {operation.sent} messages are sent: until {until} they may come back"
    if operation.rate is None:
        return "the policies allow only so many a second"
    return f"its rate is {operation.rate} messages a second"


def estimate_end(operation: RetryOperation, at: datetime) -> datetime | None:
    """Return when the remaining messages will be sent; None if nobody can say.

    As fast as those done were, and no faster than the rate allows. The standing one never ends.
    """
    left = operation.remaining
    standing = operation.is_standing
    if operation.state not in OPEN_STATES or operation.cancel_asked or left == 0 or standing:
        return None
    ends = [_by_speed(operation, at), _by_rate(operation, at)]
    return max((end for end in ends if end is not None), default=None)


def _by_speed(operation: RetryOperation, at: datetime) -> datetime | None:
    done, started = operation.total - operation.remaining, operation.started_at
    is_moving = operation.state is RetryOperationState.FORWARDING and done > 0
    if not is_moving or started is None:
        return None
    return at + (at - started) / done * operation.remaining


def _by_rate(operation: RetryOperation, at: datetime) -> datetime | None:
    if operation.rate is None:
        return None
    waits = (operation.not_before, operation.next_cut)
    begins = max([at, *(each for each in waits if each is not None)])
    return begins + timedelta(seconds=operation.remaining / operation.rate)
