"""Archive operations: one request to archive, unarchive or resolve messages, with a cursor."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from hashlib import sha256

from retrier.domain.failed_message import FailedMessageStatus
from retrier.domain.identity import canonical, is_guid
from retrier.domain.message_actions import Act
from retrier.domain.selection import Selection, bounds_of, chosen_parts

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
