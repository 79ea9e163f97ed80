"""Messages in lines: what failed, and what happened to one."""

from dataclasses import dataclass
from datetime import datetime

from retrier.store.queries.history_words import put_into_words
from retrier.store.queries.message_history import HistoryLine
from retrier.store.queries.messages import ListedMessage

LONGEST_VALUE = 4000
"""Characters of one text on a page at most."""
_BAD = {"failed", "retry_failed", "message_dead", "retry_returned"}
_GOOD = {"confirmed", "resolved", "message_resolved"}
_UNKNOWN = "no reason is known"


@dataclass(frozen=True, slots=True, kw_only=True)
class LineShown:
    """One thing that happened."""

    at: datetime
    text: str
    who: str | None
    why: str | None
    operation_id: str | None
    tone: str


def title_of(message: ListedMessage) -> str:
    """Return what failed, in a few words: the exception, or the reason that the broker gives."""
    return message.exception_type or message.failure_reason or _UNKNOWN


def tell_line(told: HistoryLine) -> LineShown:
    """Return a line of the history as it is shown."""
    kind, text = put_into_words(told)
    logged, request = told.event, told.request
    return LineShown(
        at=told.at,
        text=text[:LONGEST_VALUE],
        who=logged.who if logged else request.requested_by if request else None,
        why=request.why if request else None,
        operation_id=told.operation_id,
        tone="bad" if kind in _BAD else "good" if kind in _GOOD else "",
    )
