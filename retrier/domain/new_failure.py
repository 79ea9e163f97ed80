"""A new failure of a known message, or a confirmation: does it change the message?"""

from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from retrier.domain.failed_message import FailedMessageStatus, LastWord, Resolution


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The stored state of a message when a new failure or confirmation of it arrives.

    `claim` is the retry id of the claim in force. `last_failure` is None if the last failure has
    no time. `confirmed_at` is the time in the confirmation. `word` is what its row says of a
    person's last word; `last_word` knows more.
    """

    status: FailedMessageStatus
    claim: str | None
    last_failure: datetime | None
    resolution: Resolution | None
    confirmed_at: datetime | None
    word: LastWord | None = None

    @property
    def waits_for_outcome(self) -> bool:
        """Whether a confirmation of its retry is still news; one of a presumed retry is only late."""
        presumed = self.resolution is Resolution.PRESUMED
        return presumed or self.status is FailedMessageStatus.RETRY_ISSUED


class Verdict(Enum):
    """What a new failure does to the message.

    BECOMES_UNRESOLVED  a new failure: details replaced, a new failure number, any claim ends.
    ATTEMPT_ONLY        kept as an attempt; status, details and claim stay as they are.
    """

    BECOMES_UNRESOLVED = "becomes unresolved"
    ATTEMPT_ONLY = "attempt only"


def judge_failure(known: Known, *, retry_id: str | None, failed_at: datetime | None) -> Verdict:
    """Decide what a failure that is no redelivery does to the message.

    The retry id decides first. A failure with the retry id of the claim in force is the outcome of
    that retry, whatever its time is; a failure of another retry never ends that claim. Then the
    status: one whose retry was issued, or that a person put aside, is open again. Times decide last. With equal or missing times the message becomes unresolved: one that is open without need
    is seen by somebody, one that is closed by mistake is lost.
    """
    if known.claim is not None and retry_id is not None:
        same = retry_id == known.claim
        return Verdict.BECOMES_UNRESOLVED if same else Verdict.ATTEMPT_ONLY
    if known.status is FailedMessageStatus.RETRY_ISSUED or _was_set_aside_without_evidence(known):
        return Verdict.BECOMES_UNRESOLVED
    return _judge_by_time(known, failed_at)


def count_failure(before: int, *, counted: bool) -> int:
    """Return the failure count of a message that a failure makes unresolved, at least 1.

    `before` was its count; `counted` means that it counts the failure of this very retry already: a
    retry that a crash doubled fails twice, and its message must not be given up too early.
    """
    return max(1, before if counted else before + 1)


def confirmation_resolves(known: Known, *, succeeded_at: datetime | None) -> bool:
    """Say whether a confirmation resolves the message.

    One that waits for the outcome of its retry: always. An unresolved one: only if the success is
    later than the last failure, because an old confirmation must not hide a new failure.
    """
    if known.waits_for_outcome:
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
    # A confirmation came after the last failure, so only its time is compared: the clock of the
    # host that wrote that failure may be ahead.
    latest = known.confirmed_at or known.last_failure
    if failed_at is None or latest is None or failed_at >= latest:
        return Verdict.BECOMES_UNRESOLVED
    return Verdict.ATTEMPT_ONLY
