"""Why an operation waits: as people are told."""

from datetime import datetime

from retrier.domain.retry_operation import OPEN_STATES, RetryOperation, RetryOperationState
from retrier.domain.times import show_time


def why_it_waits(operation: RetryOperation, at: datetime) -> str | None:
    """Say in a sentence why nothing is cut off an operation at this time; None if nothing stops it.

    `at` is the database's time.
    """
    if operation.cancel_asked:
        return "it was cancelled: only what may have been sent already is finished"
    if operation.state is RetryOperationState.PAUSED:
        return operation.reason or "it is paused"
    if operation.state not in OPEN_STATES:
        return None
    if operation.passed_over:
        return operation.reason
    if operation.not_before is not None and operation.not_before > at:
        return f"it was asked for not before {show_time(operation.not_before)}"
    return _wait_for_cut(operation, at)


def _wait_for_cut(operation: RetryOperation, at: datetime) -> str | None:
    if operation.next_cut is None or operation.next_cut <= at:
        return None
    return f"its rate is {operation.rate} messages a second"
