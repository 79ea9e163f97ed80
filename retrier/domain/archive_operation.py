"""What a person can do with failed messages besides a retry: one act, or an operation over many."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from enum import Enum, StrEnum
from hashlib import sha256
from typing import assert_never

from retrier.domain.failed_message import Disposition, FailedMessageStatus
from retrier.domain.identity import canonical, is_guid
from retrier.domain.selection import Selection, bounds_of, chosen_parts
from retrier.domain.values import dataclass


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


class ActRefusal(StrEnum):
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
        (Act.ARCHIVE, ActRefusal.ARCHIVED),
        (Act.RESOLVE, ActRefusal.RESOLVED),
        (Act.UNARCHIVE, ActRefusal.NOT_ARCHIVED),
    }
)
"""Refusals that mean that the act was done before."""


def why_not(act: Act, status: FailedMessageStatus, claim: ClaimStage) -> ActRefusal | None:
    """Return why a message in this state refuses the act; None if it may be done.

    While a claim is stamped and not recorded, its message may have been sent. An act that ended
    such a claim would allow a second retry of a message that is already on its way.
    """
    if claim is ClaimStage.BEING_SENT:
        return ActRefusal.ON_ITS_WAY
    match act:
        case Act.ARCHIVE:
            return ActRefusal.SENT if claim is ClaimStage.SENT else _SETTLED.get(status)
        case Act.RESOLVE:
            return _SETTLED.get(status)
        case Act.UNARCHIVE:
            archived = status is FailedMessageStatus.ARCHIVED
            return None if archived else ActRefusal.NOT_ARCHIVED
        case Act.RELEASE:
            return None if claim is ClaimStage.SENT else ActRefusal.NOT_PENDING
        case _:
            assert_never(act)


def why_not_revive(
    status: FailedMessageStatus, disposition: Disposition, claim: ClaimStage
) -> ActRefusal | None:
    """Return why a message cannot be revived; None if it is dead and no retry has claimed it."""
    if status is not FailedMessageStatus.UNRESOLVED or disposition is not Disposition.DEAD:
        return ActRefusal.NOT_DEAD
    return None if claim is ClaimStage.NONE else ActRefusal.CLAIMED


def why_not_declare_dead(
    status: FailedMessageStatus, disposition: Disposition, claim: ClaimStage
) -> ActRefusal | None:
    """Return why a person cannot declare a message dead; None if it is unresolved and not dead.

    A claim under which nothing was sent is no reason: it ends.
    """
    if claim is ClaimStage.BEING_SENT:
        return ActRefusal.ON_ITS_WAY
    if status is FailedMessageStatus.RETRY_ISSUED:
        return ActRefusal.SENT if claim is ClaimStage.SENT else ActRefusal.ISSUED
    if status in _SETTLED:
        return _SETTLED[status]
    return ActRefusal.DEAD if disposition is Disposition.DEAD else None


_SETTLED = {
    FailedMessageStatus.ARCHIVED: ActRefusal.ARCHIVED,
    FailedMessageStatus.RESOLVED: ActRefusal.RESOLVED,
}


AT_ONCE = 1000
"""A request about at most this many messages is done when it is answered."""


class ArchiveOperationState(StrEnum):
    """How far an archive operation is.

    WAITING    nothing of it is done yet.
    RUNNING    its first chunk is done.
    COMPLETED  no message is left that it could change.
    """

    WAITING = "waiting"
    RUNNING = "running"
    COMPLETED = "completed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveRequest:
    """A request to archive, unarchive or resolve; one transaction makes it an operation.

    `undo_of` is the operation whose messages it takes back.
    """

    act: Act
    selection: Selection
    originator: str
    requested_by: str
    why: str | None = None
    idempotency_key: str | None = None
    undo_of: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveOperation:
    """One archive operation as stored; kept as history when it is done.

    `skipped_because` has for each reason how many messages were left as they were.
    """

    operation_id: str
    act: Act
    selection: Selection
    cut_off: int
    cursor: int
    originator: str
    requested_by: str
    why: str | None
    state: ArchiveOperationState
    total: int
    done: int
    skipped: int
    skipped_because: Mapping[str, int]
    undo_of: str | None
    reason: str | None
    created_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    acknowledged_at: datetime | None
    modified_at: datetime

    @property
    def remaining(self) -> int:
        """How many messages it has not looked at yet."""
        return self.total - self.done - self.skipped


_SOURCES = {
    Act.ARCHIVE: FailedMessageStatus.UNRESOLVED,
    Act.UNARCHIVE: FailedMessageStatus.ARCHIVED,
    Act.RESOLVE: FailedMessageStatus.UNRESOLVED,
}
"""Of which status the messages are that an act on a selection means."""


OPPOSITE = {Act.ARCHIVE: Act.UNARCHIVE, Act.UNARCHIVE: Act.ARCHIVE}
"""Which act takes back what another one did: these are done in the order of their requests."""


def select_for(act: Act, selection: Selection) -> Selection:
    """Return the selection with the status that the act means; named ids may have any."""
    if selection.ids is not None:
        return selection
    source = FailedMessageStatus.RETRY_ISSUED if selection.pending else _SOURCES[act]
    return replace(selection, statuses=frozenset({source}))


def parts_to_store(selection: Selection) -> dict[str, object]:
    """Return the JSON of a selection, without ids: they have rows of their own."""
    parts: dict[str, object] = {**chosen_parts(selection), **bounds_of(selection)}
    if selection.modified is not None:
        parts["modified_from"], parts["modified_to"] = (
            moment.isoformat() for moment in selection.modified
        )
    if selection.pending:
        parts["pending"] = True
    if selection.sent_before is not None:
        parts["sent_before"] = selection.sent_before.isoformat()
    if selection.sent_to is not None:
        parts["sent_to"] = selection.sent_to
    return parts


def hash_archive_request(request: ArchiveRequest) -> str:
    """Return the hash of all that was asked for, without who asked and under which key.

    `sent_before` is left out: it is counted from the time of the request, so that a repeated
    request has another one. The originator tells of what age the messages were to be.
    """
    ids = request.selection.ids
    parts = parts_to_store(request.selection)
    parts.pop("sent_before", None)
    asked = {
        "act": request.act,
        "originator": request.originator,
        "ids": None if ids is None else sorted(distinct(ids)),
        "parts": parts,
        "why": request.why,
        "undo_of": request.undo_of,
    }
    return sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def distinct(unique_ids: Iterable[str]) -> tuple[str, ...]:
    """Return the ids as they were given, each message once: a GUID may come in capitals."""
    known = {canonical(each) if is_guid(each) else each: each for each in unique_ids}
    return tuple(known.values())


def count_left(
    operation: ArchiveOperation, because: Mapping[str, int], done: int, left: str
) -> dict[str, int]:
    """Return the reasons at the end: what was never looked at is counted under `left`."""
    missing = operation.total - done - sum(because.values())
    return {**because, left: because.get(left, 0) + missing} if missing > 0 else dict(because)
