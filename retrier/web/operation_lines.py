"""Retry operations and batches as lines: how far, how fast, how long still, and why one waits."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from retrier.domain.outcomes import OUTCOME_WORDS
from retrier.domain.retry_batch import RetryBatchStatus
from retrier.domain.retry_operation import CanaryState, RetryOperation, RetryOperationState
from retrier.domain.schedule import Schedule
from retrier.domain.wait_reasons import CLEAR, Obstacles, estimate_end, why_it_waits
from retrier.store.batches import BatchCount, BatchDetails
from retrier.store.message_lists import ShownClaim
from retrier.web.wording import ago, duration, number, plural, sentence

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
        title=shown.originator[:1].upper() + shown.originator[1:],
        requested_by=shown.requested_by,
        why=shown.why,
        state=_state(shown, waits),
        tone=_tone(shown, waits),
        done=shown.total - shown.remaining,
        total=shown.total,
        text=_text(shown, at, schedule, obstacles),
        waits=None if waits is None else sentence(waits),
        created_at=shown.created_at,
        is_over=shown.state in _OVER,
        is_standing=shown.is_standing,
    )


MOMENT = timedelta(seconds=5)
"""A shorter wait is none that one must know: between two cuts at a rate."""


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
    shown: RetryOperation, at: datetime, schedule: Schedule | None, obstacles: Obstacles
) -> str:
    if shown.is_standing:
        return " · ".join(_words_standing(shown, at, schedule))
    over = shown.state in _OVER
    return " · ".join(_words_ended(shown) if over else _words_going(shown, at, obstacles))


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


def _words_going(shown: RetryOperation, at: datetime, obstacles: Obstacles) -> Iterator[str]:
    done = shown.total - shown.remaining
    yield f"{number(done)} of {number(shown.total)}"
    is_moving = shown.state is RetryOperationState.FORWARDING and not shown.passed_over
    if is_moving and shown.started_at is not None and done and at > shown.started_at:
        seconds = (at - shown.started_at).total_seconds()
        limit = "" if shown.rate is None else f", {number(shown.rate)} at most"
        yield f"{number(max(1, round(done / seconds)))} a second{limit}"
    end = estimate_end(shown, at, obstacles)
    if end is not None:
        yield f"about {duration(end - at)} left"


def _words_ended(shown: RetryOperation) -> Iterator[str]:
    yield plural(shown.forwarded, "retry sent", "retries sent")
    for outcome, count in shown.outcomes_shown.items():
        yield f"{number(count)} {OUTCOME_WORDS[outcome]}"
    if shown.skipped:
        yield f"{number(shown.skipped)} skipped"
    if shown.failed:
        yield f"{number(shown.failed)} could not be sent"


SHOWN_CLAIMS = 20

_STAGES = {
    RetryBatchStatus.MARKING: "Its messages are being claimed. None of them is sent yet.",
    RetryBatchStatus.STAGING: "Copies are being put into the staging queue.",
    RetryBatchStatus.FORWARDING: "Its copies are being sent to their queues, one after another.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchView:
    """One batch. `claims` are the first of those in doubt; `doubt` says what that means."""

    batch_id: str
    operation_id: str
    status: str
    stage: str
    text: str
    reason: str | None
    not_before: datetime | None
    since: datetime
    in_doubt: int
    doubt: str
    claims: Sequence[ShownClaim]


def batch_view(counted: BatchCount, found: BatchDetails | None = None) -> BatchView:
    """Return a batch as people see it."""
    batch = counted.batch
    return BatchView(
        batch_id=batch.batch_id,
        operation_id=batch.operation_id,
        status=batch.status.value,
        stage=_STAGES[batch.status],
        text=f"{number(counted.forwarded)} of {plural(counted.claims, 'message')} sent",
        reason=None if batch.reason is None else sentence(batch.reason),
        not_before=batch.not_before,
        since=batch.created_at,
        in_doubt=counted.in_doubt,
        doubt=_doubt(counted.in_doubt),
        claims=() if found is None else found.in_doubt[:SHOWN_CLAIMS],
    )


def _doubt(count: int) -> str:
    if count == 0:
        return "Nothing is in doubt."
    verb = "is" if count == 1 else "are"
    return (
        f"{plural(count, 'message')} {verb} in doubt: handed to the broker, and it is not recorded yet "
        "whether it has them. While the processor works this lasts for a moment. After a crash or a "
        "lost connection they may be sent once more, under the same retry id: by that a consumer "
        "can drop the second copy."
    )
