"""Selections: conditions that choose the messages of a request or a list, joined by *and*."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from retrier.domain.failed_message import FailedMessageStatus
from retrier.domain.text import IdRange


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Conditions on messages. None is no condition; with no condition at all, all are selected.

    `ids` are whole ids; `id_range` selects ids by their beginning. `modified` is a range of times
    of the last change, both ends included. `up_to` is a failure number: messages that became
    unresolved after the request have a higher one. `pending` selects only messages whose retry is
    recorded as forwarded and has no outcome yet, with `sent_before` only those recorded by then.
    """

    ids: tuple[str, ...] | None = None
    group: str | None = None
    queue: str | None = None
    endpoint: str | None = None
    exception_type: str | None = None
    message_type: str | None = None
    statuses: frozenset[FailedMessageStatus] | None = None
    modified: tuple[datetime, datetime] | None = None
    id_range: IdRange | None = None
    up_to: int | None = None
    pending: bool = False
    sent_before: datetime | None = None


NAMES = ("group", "queue", "endpoint", "exception_type", "message_type")
"""The parts by which an operation may select; each is a text."""


def named_parts(selection: Selection) -> Mapping[str, str]:
    """Return the parts of a selection that are names, without those left open."""
    parts = {name: getattr(selection, name) for name in NAMES}
    return {name: value for name, value in parts.items() if value is not None}
