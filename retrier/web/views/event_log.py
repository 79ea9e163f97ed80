"""The event log: what happened, newest first, narrowed by kind, message and operation."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from retrier.store.queries.event_log import LoggedEvent
from retrier.web.views.archived import Token
from retrier.web.views.event_lines import EventLine, event_lines, name_of_kind

PATH = "/events"

KINDS = (
    "acknowledged",
    "archive_asked",
    "archive_completed",
    "archive_refused",
    "batch_adopted",
    "batch_forwarded",
    "batch_held_back",
    "batch_moved",
    "batch_released",
    "batch_staged",
    "breaker_closed",
    "breaker_half_opened",
    "breaker_hand_ended",
    "breaker_opened",
    "canary_failed",
    "canary_passed",
    "canary_sent",
    "cancel_asked",
    "copy_of_another_came",
    "dead_refused",
    "failed_after_last_word",
    "failed_import",
    "group_comment_deleted",
    "group_commented",
    "import_deleted",
    "import_in_doubt",
    "import_kept",
    "import_not_sent",
    "import_read_again",
    "import_sent",
    "import_stamped",
    "message_archived",
    "message_dead",
    "message_declared_dead",
    "message_released",
    "message_resolved",
    "message_unarchived",
    "messages_archived",
    "messages_resolved",
    "messages_unarchived",
    "operation_cancelled",
    "operation_completed",
    "operation_paused",
    "operation_rate",
    "operation_resumed",
    "own_copy_came_back",
    "policies_wrong",
    "recovery_begun",
    "recovery_ended",
    "redirect_changed",
    "redirect_created",
    "redirect_deleted",
    "release_refused",
    "resolve_asked",
    "resolve_completed",
    "resolve_refused",
    "retention_swept",
    "retries_presumed",
    "retry_asked",
    "retry_released",
    "retry_returned",
    "retry_scheduled",
    "retry_skipped",
    "revive_refused",
    "sent_again",
    "stream_released",
    "unarchive_asked",
    "unarchive_completed",
    "unarchive_refused",
)
"""What can be filtered by; a test compares them with the documentation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventQuery:
    """The query of the log, as it stands in its address; `before` is the number of an event."""

    kind: str = ""
    operation: str = ""
    message: str = ""
    before: str = ""

    @property
    def conditions(self) -> Mapping[str, str]:
        """What narrows the log."""
        found = {"kind": self.kind, "operation": self.operation, "message": self.message}
        return {name: value for name, value in found.items() if value}

    def to(self, **values: str) -> str:
        """Return the address with other values, on the first page unless one is named."""
        kept = {name: each for name, each in {**self.conditions, **values}.items() if each}
        return f"{PATH}?{urlencode(kept)}" if kept else PATH


@dataclass(frozen=True, slots=True, kw_only=True)
class EventLogPage:
    """All that the page shows. `since` is the newest event; nothing if new ones cannot be told."""

    events: Sequence[EventLine]
    query: EventQuery
    kinds: Sequence[tuple[str, str]]
    tokens: Sequence[Token]
    newest: str | None
    older: str | None
    since: str


def event_log_page(
    found: Sequence[LoggedEvent], query: EventQuery, most: int, newest: int
) -> EventLogPage:
    """Return one page; one event more than `most` was looked for, to know whether there are more.

    New events are told only where every event is shown: nobody knows which ones would match.
    """
    shown = found[:most]
    more = len(found) > most
    return EventLogPage(
        events=event_lines(shown),
        query=query,
        kinds=[(each, name_of_kind(each)) for each in KINDS],
        tokens=list(_tokens(query)),
        newest=query.to() if query.before else None,
        older=query.to(before=str(shown[-1].event_id)) if more else None,
        since="" if query.conditions or query.before else str(newest),
    )


def _tokens(query: EventQuery) -> Iterator[Token]:
    for name, value in query.conditions.items():
        shown = name_of_kind(value) if name == "kind" else value
        yield Token(name=name, value=shown, without=query.to(**{name: ""}))
