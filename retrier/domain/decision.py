"""Decisions: what becomes of a message that is unresolved, each with its reason."""

from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from retrier.domain.failed_message import FailedMessageStatus, Resolution


@dataclass(frozen=True, slots=True, kw_only=True)
class Manual:
    """A person decides. `why` says what happened to it, where that is not plain from its failure."""

    why: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryAt:
    """It is retried by itself at that time."""

    at: datetime
    why: str
    policy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Dead:
    """It is given up: nothing retries it by itself, and bulk retries leave it out."""

    why: str
    policy: str | None = None


Decision = Manual | RetryAt | Dead


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What the store knows of a message when something new of it arrives.

    `claim` is the retry id of the claim in force. `last_failure` is None when the last failure
    gave no time; `confirmed_at` is the time a confirmation gave.
    """

    status: FailedMessageStatus
    claim: str | None
    last_failure: datetime | None
    resolution: Resolution | None
    confirmed_at: datetime | None


class Verdict(Enum):
    """What becomes of the message.

    BECOMES_UNRESOLVED  a new failure: details replaced, a new failure number, any claim ends.
    ATTEMPT_ONLY        kept as an attempt; status, details and claim stay as they are.
    """

    BECOMES_UNRESOLVED = "becomes unresolved"
    ATTEMPT_ONLY = "attempt only"


def judge_failure(known: Known, *, retry_id: str | None, failed_at: datetime | None) -> Verdict:
    """Decide what a failure that is no redelivery means.

    The cause decides first: a failure with the retry id of the claim in force is that retry's
    outcome whatever its time says, and one of another retry never touches a claim in force. Only
    then do times decide; a tie or a missing time ends unresolved, since a row too many is seen
    and a row too few is a loss.
    """
    if known.claim is not None and retry_id is not None:
        same = retry_id == known.claim
        return Verdict.BECOMES_UNRESOLVED if same else Verdict.ATTEMPT_ONLY
    if known.status is FailedMessageStatus.RETRY_ISSUED or _was_set_aside_without_evidence(known):
        return Verdict.BECOMES_UNRESOLVED
    return _judge_by_time(known, failed_at)


def confirmation_resolves(known: Known, *, succeeded_at: datetime | None) -> bool:
    """Say whether a confirmation resolves the message.

    One that waits for its outcome always; an unresolved one only if the success is later than
    its last failure: an old confirmation must not hide a new failure.
    """
    if known.status is FailedMessageStatus.RETRY_ISSUED:
        return True
    if known.status is not FailedMessageStatus.UNRESOLVED:
        return False
    return (
        succeeded_at is not None
        and known.last_failure is not None
        and succeeded_at > known.last_failure
    )


def _was_set_aside_without_evidence(known: Known) -> bool:
    if known.status is FailedMessageStatus.RESOLVED:
        return known.resolution is not Resolution.CONFIRMED
    return known.status is FailedMessageStatus.ARCHIVED


def _judge_by_time(known: Known, failed_at: datetime | None) -> Verdict:
    # What succeeded since is the one event to compare with: an earlier host's clock may be ahead.
    latest = known.confirmed_at or known.last_failure
    if failed_at is None or latest is None or failed_at >= latest:
        return Verdict.BECOMES_UNRESOLVED
    return Verdict.ATTEMPT_ONLY
