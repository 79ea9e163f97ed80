"""Lines of the event log: what happened, when, who did it, and what it is about."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from retrier.store.queries.event_log import LoggedEvent
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
