"""Selections: which messages a request is about. Their parts are joined by *and*."""

from dataclasses import dataclass, field
from datetime import datetime

from retrier.domain.failed_message import FailedMessageStatus
from retrier.domain.text import IdRange


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What somebody names messages by; an empty one selects all of them."""

    ids: tuple[str, ...] | None = None
    group: str | None = None
    queue: str | None = None
    endpoint: str | None = None
    exception_type: str | None = None
    message_type: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sought:
    """Messages of a selection that are in one of these statuses; None leaves a part open.

    `modified` is a range of their last change, both ends included. `up_to` is a failure number:
    what became unresolved after the request is not part of it. `pending` means only those whose
    retry is recorded as forwarded and has no outcome yet.
    """

    selection: Selection = field(default_factory=Selection)
    statuses: frozenset[FailedMessageStatus] | None = None
    modified: tuple[datetime, datetime] | None = None
    ids: IdRange | None = None
    up_to: int | None = None
    pending: bool = False
