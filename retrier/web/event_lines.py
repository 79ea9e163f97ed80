"""Lines of the event log and of the history of a message: what happened, when, and to what."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from retrier.store.event_log import LoggedEvent
from retrier.store.message_history import HistoryLine, put_into_words
from retrier.store.message_lists import ListedMessage
from retrier.web.wording import sentence

_BAD = frozenset({"retry_returned", "failed_import", "import_in_doubt", "canary_failed"})
_WAIT = frozenset(
    {
        "retry_skipped",
        "own_copy_came_back",
        "copy_of_another_came",
        "import_kept",
        "import_not_sent",
        "batch_adopted",
        "batch_moved",
        "sent_again",
        "archive_refused",
        "unarchive_refused",
        "resolve_refused",
        "message_dead",
        "policies_wrong",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventLine:
    """One event. `tone` is `bad`, `wait` or nothing."""

    event_id: int
    at: datetime
    kind: str
    name: str
    who: str
    text: str
    tone: str
    message: str | None
    operation: str | None
    batch: str | None
    details: Sequence[tuple[str, str]]


def event_lines(events: Iterable[LoggedEvent]) -> Sequence[EventLine]:
    """Return events as lines."""
    return [_line(each) for each in events]


def name_of_kind(kind: str) -> str:
    """Return a kind as people read it: `retry asked`."""
    return kind.replace("_", " ")


def _line(each: LoggedEvent) -> EventLine:
    return EventLine(
        event_id=each.event_id,
        at=each.at,
        kind=each.kind,
        name=name_of_kind(each.kind),
        who=each.who,
        text=sentence(each.text),
        tone="bad" if each.kind in _BAD else "wait" if each.kind in _WAIT else "",
        message=each.unique_message_id,
        operation=each.operation_id,
        batch=each.batch_id,
        details=[(name, str(value)) for name, value in (each.details or {}).items()],
    )


LONGEST_VALUE = 4000
"""Characters of one text on a page at most."""
_BAD_LINES = {"failed", "retry_failed", "message_dead", "retry_returned"}
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
        tone="bad" if kind in _BAD_LINES else "good" if kind in _GOOD else "",
    )
