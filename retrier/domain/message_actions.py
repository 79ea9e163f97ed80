"""What a person can do with a failed message besides a retry, and when each act is refused."""

from enum import Enum, StrEnum
from typing import assert_never

from retrier.domain.failed_message import FailedMessageStatus


class Act(StrEnum):
    """What a person can do with a message besides retrying it.

    ARCHIVE    sets it aside (ServiceControl: archive, in the page: delete).
    UNARCHIVE  takes it back: unresolved, with a new failure number.
    RESOLVE    says that it is dealt with, by hand.
    RELEASE    gives up waiting for the outcome of its retry: unresolved, with a new failure number.
    """

    ARCHIVE = "archive"
    UNARCHIVE = "unarchive"
    RESOLVE = "resolve"
    RELEASE = "release"


class ClaimStage(Enum):
    """How far the retry that has claimed a message is."""

    NONE = "no retry claims it"
    CLAIMED = "not sent yet"
    BEING_SENT = "stamped and not recorded: it may have been sent"
    SENT = "recorded"


class Refusal(StrEnum):
    """Why an act is refused or not needed."""

    UNKNOWN = "no failed message has this id"
    CHANGED = "it changed since the request selected it"
    ON_ITS_WAY = "it is on its way: its retry is being sent and not recorded yet"
    SENT = (
        "its retry was sent and has neither succeeded nor failed yet; it can be resolved: "
        "`retrier pending resolve`"
    )
    NOT_PENDING = "it is no pending retry"
    NOT_ARCHIVED = "it is not archived"
    ARCHIVED = "it is archived already"
    RESOLVED = "it is resolved already"


NOTHING_TO_DO = frozenset(
    {
        (Act.ARCHIVE, Refusal.ARCHIVED),
        (Act.RESOLVE, Refusal.RESOLVED),
        (Act.UNARCHIVE, Refusal.NOT_ARCHIVED),
    }
)
"""Refusals that mean that the act was done before."""


def why_not(act: Act, status: FailedMessageStatus, claim: ClaimStage) -> Refusal | None:
    """Return why a message in this state refuses the act; None if it may be done.

    While a claim is stamped and not recorded, its message may have been sent. An act that ended
    such a claim would allow a second retry of a message that is already on its way.
    """
    if claim is ClaimStage.BEING_SENT:
        return Refusal.ON_ITS_WAY
    match act:
        case Act.ARCHIVE:
            return Refusal.SENT if claim is ClaimStage.SENT else _SETTLED.get(status)
        case Act.RESOLVE:
            return _SETTLED.get(status)
        case Act.UNARCHIVE:
            archived = status is FailedMessageStatus.ARCHIVED
            return None if archived else Refusal.NOT_ARCHIVED
        case Act.RELEASE:
            return None if claim is ClaimStage.SENT else Refusal.NOT_PENDING
        case _:
            assert_never(act)


_SETTLED = {
    FailedMessageStatus.ARCHIVED: Refusal.ARCHIVED,
    FailedMessageStatus.RESOLVED: Refusal.RESOLVED,
}
