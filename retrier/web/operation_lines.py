"""Retry operations as lines: how far, how fast, how long still, and why one waits."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from retrier.domain.outcomes import OUTCOME_WORDS
from retrier.domain.retry_operation import (
    HIGHEST_RATE,
    CanaryState,
    RetryOperation,
    RetryOperationState,
    name_skipped,
)
from retrier.domain.schedule import Schedule
from retrier.domain.values import dataclass
from retrier.domain.wait_reasons import CLEAR, Obstacles, estimate_end, why_it_waits
from retrier.web.wording import ago, capital, duration, number, plural, sentence

_OVER = (RetryOperationState.COMPLETED, RetryOperationState.CANCELLED)


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationLine:
    """One operation; `text` says in a few words how far it is, `waits` why it does not go on."""

    operation_id: str
    title: str
    requested_by: str
    why: str | None
    state: str
    tone: str
    done: int
    total: int
    text: str
    waits: str | None
    created_at: datetime
    is_over: bool
    is_standing: bool = False
    is_paused: bool = False
    limit: int | None = None
    came_back: int = 0


def operation_line(
    shown: RetryOperation,
    at: datetime,
    schedule: Schedule | None = None,
    obstacles: Obstacles = CLEAR,
) -> OperationLine:
    """Return an operation as a line; `at` is the database's time.

    The `schedule` is for the standing operation, `obstacles` what holds up all operations.
    """
    is_paced = obstacles.is_worked and obstacles.stuck is None and _is_paced(shown, at)
    waits = None if is_paced else why_it_waits(shown, at, schedule, obstacles)
    return OperationLine(
        operation_id=shown.operation_id,
        title=capital(shown.originator),
        requested_by=shown.requested_by,
        why=shown.why,
        state=_state(shown, waits),
        tone=_tone(shown, waits),
        done=shown.total - shown.remaining,
        total=shown.total,
        text=_text(shown, at, schedule, obstacles, goes=waits is None),
        waits=None if waits is None else sentence(waits),
        created_at=shown.created_at,
        is_over=shown.state in _OVER,
        is_standing=shown.is_standing,
        is_paused=shown.state is RetryOperationState.PAUSED
        and not shown.cancel_asked
        and not shown.is_asking,
        limit=shown.limit,
        came_back=shown.outcomes.came_back,
    )


MOMENT = timedelta(seconds=5)
"""A shorter wait is not shown: it lies between two cuts at a rate."""


def _is_paced(shown: RetryOperation, at: datetime) -> bool:
    """Say whether it goes on at its rate, within a moment."""
    goes_on = shown.state is RetryOperationState.FORWARDING
    is_held = shown.cancel_asked or shown.passed_over
    canary = shown.canary
    tries = canary is not None and canary.state in {CanaryState.SENDING, CanaryState.WAITING}
    soon = shown.next_cut is None or shown.next_cut - at < MOMENT
    return goes_on and shown.rate is not None and soon and not is_held and not tries


def _state(shown: RetryOperation, waits: str | None) -> str:
    if shown.cancel_asked and shown.state not in _OVER:
        return "being cancelled"
    if shown.is_asking:
        return "asked for approval"
    if shown.state is RetryOperationState.FORWARDING and waits is None:
        return "sending"
    return shown.state.value


def _tone(shown: RetryOperation, waits: str | None) -> str:
    if shown.state in _OVER:
        if shown.is_well is False:
            return "bad"
        confirmed = shown.outcomes.confirmed
        return "good" if confirmed and confirmed == shown.forwarded else ""
    return "" if waits is None else "wait"


def _text(
    shown: RetryOperation,
    at: datetime,
    schedule: Schedule | None,
    obstacles: Obstacles,
    *,
    goes: bool,
) -> str:
    if shown.is_standing:
        return " · ".join(_words_standing(shown, at, schedule))
    over = shown.state in _OVER
    return " · ".join(
        _words_ended(shown) if over else _words_going(shown, at, obstacles, goes=goes)
    )


def _words_standing(
    shown: RetryOperation, at: datetime, schedule: Schedule | None
) -> Iterator[str]:
    if schedule is not None:
        yield f"{number(schedule.scheduled)} scheduled"
        if schedule.next_at is not None:
            due = schedule.next_at <= at
            yield "the next is due now" if due else f"the next {ago(schedule.next_at, at)}"
    if shown.remaining:
        yield f"{number(shown.remaining)} being sent"
    yield f"{number(shown.forwarded)} sent so far"


def _words_going(
    shown: RetryOperation, at: datetime, obstacles: Obstacles, *, goes: bool
) -> Iterator[str]:
    done = shown.total - shown.remaining
    yield f"{number(done)} of {number(shown.total)}"
    # What stands still has no speed: it would only sink.
    is_moving = goes and shown.state is RetryOperationState.FORWARDING
    if is_moving and shown.started_at is not None and done and at > shown.started_at:
        seconds = (at - shown.started_at).total_seconds()
        limit = "" if shown.rate is None else f", {number(shown.rate)} at most"
        # In the first seconds the parts of a second count for too much.
        speed = min(max(1, round(done / seconds)), shown.rate or HIGHEST_RATE)
        yield f"{number(speed)} a second{limit}"
    end = estimate_end(shown, at, obstacles)
    if end is not None:
        yield f"about {duration(end - at)} left"


def _words_ended(shown: RetryOperation) -> Iterator[str]:
    yield plural(shown.forwarded, "retry sent", "retries sent")
    for outcome, count in shown.outcomes_shown.items():
        yield f"{number(count)} {OUTCOME_WORDS[outcome]}"
    if shown.skipped:
        yield f"{number(shown.skipped)} {name_skipped(shown.state)}"
    if shown.failed:
        yield f"{number(shown.failed)} could not be sent"
