"""What the processor does or waits for, and whether it makes progress."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from typing import assert_never

from retrier.domain.retry_batch import RetryBatch, RetryBatchStatus
from retrier.domain.retry_operation import RetryOperation, RetryOperationState
from retrier.domain.schedule import Schedule
from retrier.domain.values import dataclass
from retrier.domain.wait_reasons import CLEAR, NOBODY, Obstacles, is_resting, why_not_cut


class WaitingFor(StrEnum):
    """What the processor waits for.

    PROCESSOR  a process that takes the lease: nobody holds it.
    BROKER     the next try of a batch whose copies could not be put into the staging queue.
    TIME       the time at which the next operation may be cut: asked for, or by rate or canary.
    RELEASE    what holds the messages that are left: only such ones are.
    PERSON     somebody who resumes what is paused.
    REQUEST    a request for a retry: nothing is open.
    """

    PROCESSOR = "processor"
    BROKER = "broker"
    TIME = "time"
    RELEASE = "release"
    PERSON = "person"
    REQUEST = "request"


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What is being done (`stage`), or what is waited for, why, and until when if that is known."""

    stage: RetryBatchStatus | None = None
    batch_id: str | None = None
    operation_id: str | None = None
    waits_for: WaitingFor | None = None
    why: str | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkQueue:
    """Batches in the order in which they are moved, and operations in the order of their cuts.

    `at` is the database's time, `schedule` what the standing operation waits for; None without it.
    `obstacles` is what holds up all operations.
    """

    batches: Sequence[RetryBatch]
    operations: Sequence[RetryOperation]
    at: datetime
    schedule: Schedule | None = None
    obstacles: Obstacles = CLEAR


def find_work(queue: WorkQueue, *, is_held: bool, trouble: str | None = None) -> Work:
    """Say what the holder of the lease does now.

    `trouble` is why it does not get on, as it says itself: the database cannot know that a broker
    takes nothing, but the process can.
    """
    if not is_held:
        return Work(waits_for=WaitingFor.PROCESSOR, why=NOBODY)
    for batch in queue.batches:
        work = _of_batch(batch, queue.at)
        return work if work.why is not None else replace(work, why=trouble)
    for operation in queue.operations:
        if why_not_cut(operation, queue.at, queue.schedule) is not None:
            continue
        key = operation.operation_id
        return Work(stage=RetryBatchStatus.MARKING, operation_id=key, why=trouble)
    return _of_waiting(queue)


def wait_until(
    operation: RetryOperation, at: datetime, schedule: Schedule | None = None
) -> datetime | None:
    """Return when an operation may be cut, if it waits for its time."""
    due = schedule.next_at if schedule is not None and operation.is_standing else None
    times = (operation.not_before, operation.next_cut, due)
    return max((each for each in times if each is not None and each > at), default=None)


def is_waiting(batch: RetryBatch, at: datetime) -> bool:
    """Say whether a batch waits to be staged again."""
    due = batch.not_before is None or batch.not_before <= at or batch.modified_at > at
    return batch.status is RetryBatchStatus.STAGING and not due


def _of_batch(batch: RetryBatch, at: datetime) -> Work:
    waits = is_waiting(batch, at)
    return Work(
        stage=batch.status,
        batch_id=batch.batch_id,
        operation_id=batch.operation_id,
        waits_for=WaitingFor.BROKER if waits else None,
        why=batch.reason if waits else None,
        until=batch.not_before if waits else None,
    )


def _of_waiting(queue: WorkQueue) -> Work:
    """Say what the first to go on waits for; behind those with a time come the others."""
    last = datetime.max.replace(tzinfo=queue.at.tzinfo)

    def until(operation: RetryOperation) -> datetime | None:
        return wait_until(operation, queue.at, queue.schedule)

    soonest = sorted(filter(_has_work(queue), queue.operations), key=lambda one: until(one) or last)
    for operation in sorted(soonest, key=lambda each: _RANKS[_kind(each)]):
        return Work(
            operation_id=operation.operation_id,
            waits_for=_kind(operation),
            why=why_not_cut(operation, queue.at, queue.schedule),
            until=until(operation),
        )
    return Work(waits_for=WaitingFor.REQUEST, why="no retry is asked for")


def _has_work(queue: WorkQueue) -> Callable[[RetryOperation], bool]:
    """Leave out the standing operation while no message is scheduled: it waits for nothing."""
    nothing = queue.schedule is None or queue.schedule.next_at is None
    return lambda each: not (nothing and is_resting(each, queue.at, queue.schedule))


def _kind(operation: RetryOperation) -> WaitingFor:
    if operation.state is RetryOperationState.PAUSED:
        return WaitingFor.PERSON
    if operation.passed_over:
        return WaitingFor.RELEASE
    return WaitingFor.TIME


_RANKS = {WaitingFor.TIME: 0, WaitingFor.RELEASE: 1, WaitingFor.PERSON: 2}


STANDSTILL_AFTER = 15.0
"""Seconds without anything recorded after which it counts as a standstill (decision 0022)."""

_LONG_WAIT = 5.0
"""Seconds after which a wait alone explains why nothing is recorded."""
_MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class ForDatabase:
    """The database has not answered yet."""


@dataclass(frozen=True, slots=True)
class ForBroker:
    """The broker has not answered yet, or the connection to it is being made."""


@dataclass(frozen=True, slots=True)
class ForConfirms:
    """The broker has not confirmed yet what was sent to these queues."""

    queues: frozenset[str]


@dataclass(frozen=True, slots=True)
class ForAlarm:
    """The broker accepts no messages from publishers until its alarm is over; `why` in words."""

    why: str = "the broker blocks publishers (alarm)"


@dataclass(frozen=True, slots=True)
class ForCopies:
    """Copies vanish from the staging queue, however often the batch is staged again."""


Wait = ForDatabase | ForBroker | ForConfirms | ForAlarm
Cause = Wait | ForCopies


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressNotes:
    """The progress of a processor; times are monotonic seconds.

    `since` is the time of the last record, or the time at which work appeared if that is later;
    None while no work may be done. `wait` is None between two turns. `loses_copies` means that
    after `since` a batch was staged and none of its copies came back.
    """

    since: float | None = None
    wait: Wait | None = None
    waiting_since: float = 0.0
    loses_copies: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Standstill:
    """Nothing was recorded for this many seconds, although there is work that may be done."""

    seconds: float
    cause: Cause

    @property
    def reason(self) -> str:
        """The standstill in words, for people."""
        return f"no progress for {int(self.seconds)} s: {_describe(self.cause)}"


def find_hang(since: float | None, now: float) -> Standstill | None:
    """Return the standstill of a database call that began at `since` and has not ended yet."""
    return find_standstill(ProgressNotes(since=since, wait=ForDatabase()), now)


def find_standstill(notes: ProgressNotes, now: float) -> Standstill | None:
    """Return the standstill of a processor; None while it makes progress or has no work."""
    cause = _find_cause(notes, now)
    if notes.since is None or cause is None or now - notes.since < STANDSTILL_AFTER:
        return None
    return Standstill(seconds=now - notes.since, cause=cause)


def _find_cause(notes: ProgressNotes, now: float) -> Cause | None:
    # A processor that loses copies waits often but briefly: only a long wait explains more.
    waits_long = notes.wait is not None and now - notes.waiting_since >= _LONG_WAIT
    return ForCopies() if notes.loses_copies and not waits_long else notes.wait


def _describe(cause: Cause) -> str:
    match cause:
        case ForDatabase():
            return "waits for the database"
        case ForBroker():
            return "waits for the broker to answer"
        case ForConfirms(queues):
            return f"waits for the broker to confirm what was sent to {_name(queues)}"
        case ForAlarm(why):
            return why
        case ForCopies():
            return "copies vanish from the staging queue"
        case _ as never:
            assert_never(never)


def _name(queues: frozenset[str]) -> str:
    first, more = sorted(queues)[:_MOST_NAMED], len(queues) - _MOST_NAMED
    return ", ".join(first) + (f" and {more} more" if more > 0 else "")
