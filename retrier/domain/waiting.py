"""Why an operation waits, and when it will be done: as people are told."""

from datetime import datetime, timedelta

from retrier.domain.retry_operation import (
    ALIVE,
    OPEN_STATES,
    CanaryState,
    RetryOperation,
    RetryOperationState,
)
from retrier.domain.times import show_time


def why_it_waits(operation: RetryOperation, at: datetime) -> str | None:
    """Say in a sentence why nothing is cut off an operation at this time; None if nothing stops it.

    `at` is the database's time.
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
    return _wait_for_cut(operation, at)


def _wait_for_cut(operation: RetryOperation, at: datetime) -> str | None:
    if operation.next_cut is None or operation.next_cut <= at:
        return None
    until = show_time(operation.next_cut)
    canary = operation.canary
    if canary is not None and canary.state is CanaryState.WAITING:
        return f"its first {operation.sent} messages are sent: until {until} they may come back"
    return f"its rate is {operation.rate} messages a second"


def estimate_end(operation: RetryOperation, at: datetime) -> datetime | None:
    """Return when the remaining messages will be sent; None if nobody can say.

    As fast as those done were, and no faster than the rate allows.
    """
    left = operation.remaining
    if operation.state not in OPEN_STATES or operation.cancel_asked or left == 0:
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
