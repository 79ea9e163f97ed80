"""The headers with which a failed task goes to the error queue, and a retry is confirmed."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from retrier.domain import headers
from retrier.domain.dialects import RETRIER
from retrier.domain.dialects import retrier as names
from retrier.domain.headers import BROKER_COUNTERS, FAN_OUT, OF_WORKERS
from retrier.domain.streams import unite
from retrier.domain.text import clean
from retrier.domain.wire import header_text
from retrier.worker.copies import describe_exception, describe_place, describe_reason
from retrier.worker.outcomes import Problem

_NOT_KEPT = FAN_OUT | BROKER_COUNTERS | OF_WORKERS


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedTask:
    """A task that has failed for good. A retry goes to `queue`; `attempts` counts its runs.

    `worker` is the endpoint: the name of the application, never that of a machine. `process` is
    the one that ran it, on this machine; `node` is what the library calls this worker of several.
    """

    queue: str
    name: str
    worker: str
    process: int
    node: str | None = None
    attempts: int
    at: datetime
    problem: Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmationMessage:
    """What tells Retrier that a retry succeeded: an empty message with these headers."""

    queue: str
    headers: Mapping[str, str]


def describe_failure(failed: FailedTask, *, in_short: bool = False) -> dict[str, str]:
    """Return the failure headers; `in_short` without the trace, for what fits into no frame."""
    return {
        names.FAILED_QUEUE: failed.queue,
        names.TIME_OF_FAILURE: failed.at.isoformat(),
        **describe_reason(failed.problem),
        names.ATTEMPTS: str(failed.attempts),
        headers.ENDPOINT: clean(failed.worker),
        **describe_place(failed.process, failed.node),
        headers.MESSAGE_TYPE: clean(failed.name),
        **describe_exception(failed.problem, in_short=in_short),
    }


def add_steps(kept: Mapping[str, object], problem: Problem) -> dict[str, str]:
    """Return the header of completed steps: what the message came with, and what was done now."""
    if not problem.steps:
        return {}
    known = header_text(kept, headers.COMPLETED_STEPS)
    united = unite([known, *problem.steps])
    return {} if united is None else {headers.COMPLETED_STEPS: clean(united)}


def keep_headers(given: Mapping[str, object]) -> dict[str, object]:
    """Return the headers that a failed message keeps: all but what an earlier failure wrote.

    The completed steps stay: the task needs them when it runs again. So do the ids of a retry: by
    them the failure is recognised as the outcome of that retry.
    """
    return {name: value for name, value in given.items() if not _is_old(name)}


def make_confirmation(given: Mapping[str, object], at: datetime) -> ConfirmationMessage | None:
    """Return the confirmation of a message with these headers; None if nobody waits for it."""
    unique_id = given.get(headers.UNIQUE_MESSAGE_ID)
    queue = given.get(headers.ACKNOWLEDGEMENT_QUEUE)
    if not (isinstance(unique_id, str) and unique_id and isinstance(queue, str) and queue):
        return None
    stamps = {headers.RETRY_SUCCESSFUL: at.isoformat(), headers.UNIQUE_MESSAGE_ID: unique_id}
    return ConfirmationMessage(queue=queue, headers=stamps)


def _is_old(name: str) -> bool:
    return name in _NOT_KEPT or (RETRIER.strips(name) and name != headers.COMPLETED_STEPS)
