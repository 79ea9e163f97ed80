"""What a person can do with a failed message besides a retry, and when each act is refused."""

from enum import Enum, StrEnum
from typing import assert_never

from retrier.domain.failed_message import Disposition, FailedMessageStatus


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
    NOT_DEAD = "it is not dead; `retrier retry` sends back what is unresolved"
    DEAD = "it is dead already"
    CLAIMED = "a retry has claimed it already"
    ISSUED = "its retry was issued and is about to be sent"


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


def why_not_revive(
    status: FailedMessageStatus, disposition: Disposition, claim: ClaimStage
) -> Refusal | None:
    """Return why a message cannot be revived; None if it is dead and no retry has claimed it."""
    if status is not FailedMessageStatus.UNRESOLVED or disposition is not Disposition.DEAD:
        return Refusal.NOT_DEAD
    return None if claim is ClaimStage.NONE else Refusal.CLAIMED


def why_not_declare_dead(
    status: FailedMessageStatus, disposition: Disposition, claim: ClaimStage
) -> Refusal | None:
    """Return why a person cannot declare a message dead; None if it is unresolved and not dead.

    A claim under which nothing was sent is no reason: it ends.
    """
    if claim is ClaimStage.BEING_SENT:
        return Refusal.ON_ITS_WAY
    if status is FailedMessageStatus.RETRY_ISSUED:
        return Refusal.SENT if claim is ClaimStage.SENT else Refusal.ISSUED
    if status in _SETTLED:
        return _SETTLED[status]
    return Refusal.DEAD if disposition is Disposition.DEAD else None


_SETTLED = {
    FailedMessageStatus.ARCHIVED: Refusal.ARCHIVED,
    FailedMessageStatus.RESOLVED: Refusal.RESOLVED,
}
