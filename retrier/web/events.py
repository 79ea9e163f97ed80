"""The event log, newest first, narrowed by kind, message and operation; the history of retries."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, HTTPException, Request, Response

from retrier.domain.identity import canonical, is_guid
from retrier.domain.retry_operation import RetryType
from retrier.store.event_log import EventFilter, find_newest_event, list_newest_events
from retrier.store.operation_lists import read_history
from retrier.web.page import show
from retrier.web.pages import PAGE
from retrier.web.parts import Parts

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
    "view_deleted",
    "view_saved",
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


RETRY_TYPES = {
    RetryType.SINGLE_MESSAGE: "one message",
    RetryType.MULTIPLE_MESSAGES: "several messages",
    RetryType.FAILURE_GROUP: "a group",
    RetryType.ALL_FOR_ENDPOINT: "an endpoint",
    RetryType.BY_QUEUE_ADDRESS: "a queue",
    RetryType.ALL: "all messages",
    RetryType.BY_POLICY: "by policy",
}
"""What was retried, as the history says it."""

router = APIRouter(prefix=PATH)

_MOST_DIGITS = 18


@router.get("")
def get_events(request: Request, parts: Parts, query: Annotated[EventQuery, Depends()]) -> Response:
    """Show what happened, newest first.

    New events are only counted where every event is shown: nobody knows which ones would match.
    """
    # Read before the list: an event that comes in between is then counted as new, and not lost.
    newest = find_newest_event(parts.db)
    # One more than is shown says whether there are more.
    found = list_newest_events(parts.db, PAGE + 1, _filter(query), before=_number(query.before))
    shown = found[:PAGE]
    return show(
        request,
        "events.html",
        current=PATH,
        events=shown,
        query=query,
        kinds=KINDS,
        newest=query.to() if query.before else None,
        older=query.to(before=str(shown[-1].event_id)) if len(found) > PAGE else None,
        since="" if query.conditions or query.before else str(newest),
    )


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
    found = read_history(parts.db)
    return show(
        request,
        "history.html",
        current="/history",
        unseen=found.unacknowledged,
        last=found.historic,
        retry_types=RETRY_TYPES,
    )
