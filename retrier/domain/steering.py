"""Steering an operation while it runs: a person pauses, resumes or cancels it, or sets its rate."""

from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from retrier.domain.retry_operation import RetryOperationState

HIGHEST_RATE = 100_000
"""Messages a second that an operation may be limited to, at most."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Cut nothing more off the operation; the batch that is alive is finished."""


@dataclass(frozen=True, slots=True)
class Resume:
    """Go on with a paused operation where it stood."""


@dataclass(frozen=True, slots=True)
class Cancel:
    """End the operation: nothing of it that is not stamped yet is sent."""


@dataclass(frozen=True, slots=True)
class SetRate:
    """Send at most `rate` messages a second from now on; None lifts the limit."""

    rate: int | None


Order = Pause | Resume | Cancel | SetRate
"""What a person may ask of an operation that runs."""


class SteeringRefusal(StrEnum):
    """Why an order is not carried out."""

    UNKNOWN = "no operation has this id"
    COMPLETED = "it is completed: all of it is done"
    CANCELLED = "it was cancelled"
    STANDING = "it sends what is due by policy, and never ends"


@dataclass(frozen=True, slots=True, kw_only=True)
class Steered:
    """Which operation got the order, and whether that changed it: one may be repeated."""

    operation_id: str
    changed: bool


def refuse(
    order: Order, state: RetryOperationState, *, cancel_asked: bool, standing: bool = False
) -> SteeringRefusal | None:
    """Return why an operation in this state cannot take the order; None if it can.

    To cancel once more is no mistake: the first answer may have been lost. The standing operation
    cannot be cancelled: nothing would begin it anew.
    """
    if standing and isinstance(order, Cancel):
        return SteeringRefusal.STANDING
    if state is RetryOperationState.COMPLETED:
        return SteeringRefusal.COMPLETED
    if isinstance(order, Cancel):
        return None
    ended = cancel_asked or state is RetryOperationState.CANCELLED
    return SteeringRefusal.CANCELLED if ended else None


def is_done(
    order: Order, state: RetryOperationState, *, cancel_asked: bool, rate: int | None
) -> bool:
    """Say whether the order is carried out already, so that nothing has to change."""
    match order:
        case Pause():
            return state is RetryOperationState.PAUSED
        case Resume():
            return state is not RetryOperationState.PAUSED
        case Cancel():
            return cancel_asked or state is RetryOperationState.CANCELLED
        case SetRate(wanted):
            return rate == wanted
        case _ as never:
            assert_never(never)
