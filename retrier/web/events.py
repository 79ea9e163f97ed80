"""The event log, newest first, narrowed by kind, message and operation; the history of retries."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, HTTPException, Request, Response

from retrier.domain.identity import canonical, is_guid
from retrier.domain.retry_operation import RetryOperation, RetryOperationState, RetryType
from retrier.store.event_log import (
    EventFilter,
    LoggedEvent,
    find_newest_event,
    list_newest_events,
)
from retrier.store.operation_lists import History, read_history
from retrier.web.archives import Token
from retrier.web.event_lines import EventLine, event_lines, name_of_kind
from retrier.web.page import show
from retrier.web.pages import PAGE
from retrier.web.parts import Parts
from retrier.web.wording import number

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


_TYPES = {
    RetryType.SINGLE_MESSAGE: "one message",
    RetryType.MULTIPLE_MESSAGES: "several messages",
    RetryType.FAILURE_GROUP: "a group",
    RetryType.ALL_FOR_ENDPOINT: "an endpoint",
    RetryType.BY_QUEUE_ADDRESS: "a queue",
    RetryType.ALL: "all messages",
    RetryType.BY_POLICY: "by policy",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRow:
    """One retry that is over. `needs_a_look` says that not all of it was sent."""

    operation_id: str
    title: str
    kind: str
    requested_by: str
    state: str
    tone: str
    needs_a_look: bool
    sent: str
    started_at: datetime
    ended_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryPage:
    """All that the page shows."""

    unseen: Sequence[HistoryRow]
    last: Sequence[HistoryRow]


def history_page(found: History) -> HistoryPage:
    """Return the page."""
    return HistoryPage(unseen=_rows(found.unacknowledged), last=_rows(found.historic))


def _rows(operations: Iterable[RetryOperation]) -> Sequence[HistoryRow]:
    return [_row(each) for each in operations]


def _row(shown: RetryOperation) -> HistoryRow:
    cancelled = shown.state is RetryOperationState.CANCELLED
    look = shown.failed > 0 or cancelled
    return HistoryRow(
        operation_id=shown.operation_id,
        title=shown.originator[:1].upper() + shown.originator[1:],
        kind=_TYPES[shown.retry_type],
        requested_by=shown.requested_by,
        state="not all of it was sent" if look and not cancelled else shown.state.value,
        tone="wait" if look else "good",
        needs_a_look=look,
        sent=number(shown.forwarded),
        started_at=shown.started_at or shown.created_at,
        ended_at=shown.completed_at,
    )


router = APIRouter(prefix=PATH)

_MOST_DIGITS = 18


@router.get("")
def get_events(request: Request, parts: Parts, query: Annotated[EventQuery, Depends()]) -> Response:
    """Show what happened, newest first."""
    # Read before the list: an event that comes in between is then told as new, and not lost.
    newest = find_newest_event(parts.db)
    found = list_newest_events(parts.db, PAGE + 1, _filter(query), before=_number(query.before))
    view = event_log_page(found, query, PAGE, newest)
    return show(request, "events.html", view, current=PATH)


def _filter(query: EventQuery) -> EventFilter:
    """Return it as the store is asked. Raises HTTPException."""
    kinds = frozenset(each for each in query.kind.replace(" ", "").split(",") if each)
    return EventFilter(
        kinds=kinds or None,
        operation_id=_id(query.operation),
        unique_message_id=_id(query.message),
    )


def _id(text: str) -> str | None:
    named = text.strip()
    if named and not is_guid(named):
        raise HTTPException(400, "The event log is filtered by a whole id: 36 characters.")
    return canonical(named) if named else None


def _number(text: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS):
        raise HTTPException(400, "An event is named by its number.")
    return int(text)


history_router = APIRouter(prefix="/history")


@history_router.get("")
def get_history(request: Request, parts: Parts) -> Response:
    """Show the last retries that are over, and those whose end nobody has taken note of."""
    view = history_page(read_history(parts.db))
    return show(request, "history.html", view, current="/operations")
