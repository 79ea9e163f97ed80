"""Why an operation or a message waits, and when it will be done: as people are told.

All reasons are decided here. Pages, commands and the API only show them.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from enum import StrEnum

from retrier.domain.failed_message import Disposition, FailedMessageStatus
from retrier.domain.retry_operation import (
    ALIVE,
    BEFORE_THE_VERDICT,
    OPEN_STATES,
    CanaryState,
    RetryOperation,
    RetryOperationState,
)
from retrier.domain.schedule import Schedule
from retrier.domain.text import count_messages
from retrier.domain.times import show_time
from retrier.domain.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacles:
    """What holds up all operations alike, and how what is due by policy is sent.

    `stuck` is why a batch, of the operation `stuck_of`, waits to be put into the staging queue:
    nothing is cut meanwhile. `is_paused` and `paced` are about the standing operation: `paced` says what slows it down.
    """

    is_worked: bool = True
    stuck: str | None = None
    stuck_of: str | None = None
    is_paused: bool = False
    paced: str | None = None


CLEAR = Obstacles()
NOBODY = "no process holds the lease: nothing is moved until one takes it"


def why_it_waits(
    operation: RetryOperation,
    at: datetime,
    schedule: Schedule | None = None,
    obstacles: Obstacles = CLEAR,
) -> str | None:
    """Say in a sentence why nothing of an operation is sent at this time; None if nothing stops it.

    Its own reasons come before those that hold up all others, too.
    """
    own = why_not_cut(operation, at, schedule)
    if own is not None or operation.state not in ALIVE:
        return own
    if obstacles.is_worked and obstacles.stuck_of == operation.operation_id:
        return obstacles.stuck
    return _why_nothing_goes(obstacles) or _why_first_waits(operation, schedule)


def _why_nothing_goes(obstacles: Obstacles) -> str | None:
    if not obstacles.is_worked:
        return NOBODY
    if obstacles.stuck is not None:
        return f"a batch waits, and nothing else is sent meanwhile: {obstacles.stuck}"
    return None


def _why_first_waits(operation: RetryOperation, schedule: Schedule | None) -> str | None:
    if not operation.is_standing or schedule is None or schedule.held is None:
        return None
    return f"what is due for longest waits, others go on: {schedule.held}"


def why_not_cut(
    operation: RetryOperation, at: datetime, schedule: Schedule | None = None
) -> str | None:
    """Say in a sentence why nothing may be cut off an operation at this time; None if it may.

    `at` is the database's time. The `schedule` is for the standing operation.
    """
    if operation.state not in ALIVE:
        return None
    if operation.cancel_asked:
        return "it was cancelled: only what may have been sent already is finished"
    if operation.state is RetryOperationState.PAUSED:
        return _why_paused(operation)
    if operation.passed_over:
        return operation.reason
    if operation.not_before is not None and operation.not_before > at:
        return f"it was asked for not before {show_time(operation.not_before)}"
    return _wait_for_message(operation, at, schedule) or _wait_for_cut(operation, at)


def _why_paused(operation: RetryOperation) -> str:
    """Say why it is paused; the reason that it has is another one if a person did it."""
    if operation.approval is not None and operation.is_asking:
        return operation.approval.why_waiting
    canary = operation.canary
    by_itself = canary is not None and canary.state is CanaryState.FAILED
    return (operation.reason if by_itself else None) or "it is paused"


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
        return (
            f"its first {count_messages(operation.sent)} went out, and may come back until {until}"
        )
    return describe_rate(operation.rate)


def describe_rate(rate: int | None) -> str:
    """Say why there is a pause between two cuts; only what is due by policy needs no rate."""
    if rate is None:
        return "the policies allow only so many a second"
    return f"its rate is {count_messages(rate)} a second"


def estimate_end(
    operation: RetryOperation, at: datetime, obstacles: Obstacles = CLEAR
) -> datetime | None:
    """Return when the remaining messages will be sent; None if nobody can say.

    As fast as those done were, and no faster than the rate allows. The standing one never ends. While
    something holds it, how fast it was before says nothing.
    """
    goes_on = operation.state in OPEN_STATES and not operation.cancel_asked
    canary = operation.canary
    is_tried = canary is not None and canary.state is CanaryState.WAITING
    is_held = operation.passed_over or is_tried or _why_nothing_goes(obstacles) is not None
    if not goes_on or is_held or operation.remaining == 0 or operation.is_standing:
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


class Holding(StrEnum):
    """What holds a message: where more is said of it."""

    STREAM = "stream"
    BREAKER = "breaker"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingMessage:
    """What is known of a message that may wait.

    `held_behind` says what holds it in its stream, `breaker` for which breaker it waits, and
    `batch_reason` why the batch waits that has claimed it.
    """

    status: FailedMessageStatus
    disposition: Disposition
    retry_at: datetime | None
    is_claimed: bool
    maybe_copy_of: str | None = None
    held_behind: str | None = None
    breaker: str | None = None
    batch_reason: str | None = None

    @property
    def may_wait(self) -> bool:
        """Whether there can be a reason: not for what is settled, or left to a person."""
        if self.status is not FailedMessageStatus.UNRESOLVED:
            return False
        if self.is_claimed:
            return True
        match self.disposition:
            case Disposition.DEAD:
                return False
            case Disposition.SCHEDULED:
                return True
            case Disposition.MANUAL:
                return self.held_behind is not None or self.breaker is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitReason:
    """Why a message waits."""

    holding: Holding
    why: str


def describe_reasons(reasons: Iterable[WaitReason]) -> str | None:
    """Say all of them in one sentence; None if there is none."""
    return "; ".join(each.why for each in reasons) or None


IN_TURN = "it is due, and goes when its turn comes"


def why_message_waits(
    message: WaitingMessage, at: datetime, obstacles: Obstacles
) -> tuple[WaitReason, ...]:
    """Say why a message is not retried at this time; nothing if it waits for its time, or a person.

    A message that is due has always a reason: nobody is shown a time that has passed without one.
    """
    if not message.may_wait:
        return ()
    if message.is_claimed:
        why = NOBODY if not obstacles.is_worked else message.batch_reason
        return () if why is None else (WaitReason(holding=Holding.OTHER, why=why),)
    held = tuple(_what_holds(message))
    if held:
        return held
    due = _why_not_sent(message, at, obstacles)
    return () if due is None else (WaitReason(holding=Holding.OTHER, why=due),)


def _what_holds(message: WaitingMessage) -> Iterator[WaitReason]:
    if message.held_behind is not None:
        yield WaitReason(holding=Holding.STREAM, why=message.held_behind)
    if message.breaker is not None:
        yield WaitReason(holding=Holding.BREAKER, why=message.breaker)


def _why_not_sent(message: WaitingMessage, at: datetime, obstacles: Obstacles) -> str | None:
    """Say why a scheduled message that nothing holds is not sent; None before its time."""
    if message.maybe_copy_of is not None:
        return f"it may be a copy of {message.maybe_copy_of}: a person decides"
    if obstacles.is_paused:
        return "what is due by policy is paused"
    if message.retry_at is None or message.retry_at > at:
        return None
    paced = None if obstacles.paced is None else f"it is due: {obstacles.paced}"
    return _why_nothing_goes(obstacles) or paced or IN_TURN
