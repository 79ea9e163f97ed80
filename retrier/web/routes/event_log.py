"""The event log."""

from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException, Request, Response

from retrier.domain.identity import canonical, is_guid
from retrier.store.queries.event_log import EventFilter, find_newest_event, list_newest_events
from retrier.web.parts import Parts
from retrier.web.showing import show
from retrier.web.views.event_log import PATH, EventQuery, event_log_page
from retrier.web.views.pages import PAGE

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
