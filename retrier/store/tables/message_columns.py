"""What the columns of a failed message say: of its newest failure, and of a decision."""

from dataclasses import dataclass
from typing import assert_never

from retrier.domain.decision import Dead, Decision, Manual, RetryAt
from retrier.domain.failed_message import Disposition
from retrier.domain.receipt import Attempt, MessageChange
from retrier.store.tables.texts import short


@dataclass(frozen=True, slots=True, kw_only=True)
class Newest:
    """What a message shows from now on: the change, its attempt's number and its cause's."""

    change: MessageChange
    attempt: Attempt
    attempt_id: int
    cause_id: int


def decided_columns(decision: Decision) -> dict[str, object]:
    """Return the parameters that say what was decided of an unresolved message."""
    undecided: dict[str, object] = {"why": short(decision.why), "due": None, "by": None}
    match decision:
        case Manual():
            return {**undecided, "decided": Disposition.MANUAL}
        case RetryAt(at=at, policy=policy):
            return {**undecided, "decided": Disposition.SCHEDULED, "due": at, "by": policy}
        case Dead(policy=policy):
            return {**undecided, "decided": Disposition.DEAD, "by": policy}
        case _ as never:
            assert_never(never)


def shown_columns(newest: Newest) -> dict[str, object]:
    """Return the columns that say what a message shows of its newest failure."""
    failure = newest.attempt.failure
    details = failure.details
    return {
        "attempt_id": newest.attempt_id,
        "cause_id": newest.cause_id,
        "message_id": short(failure.message_id),
        "time_sent": details.time_sent,
        # A missing time is filled in for display only; last_failure_known says so.
        "last_failure": newest.attempt.shown_time,
        "last_failure_known": details.time_of_failure is not None,
        "last_modified": failure.received_at,
        "body_size": len(failure.body),
        "properties_size": len(failure.raw),
        "stream_id": short(details.stream_id),
        "maybe_copy_of": newest.attempt.maybe_copy_of,
    }
