"""What happened: the event log in pages, and as it grows."""

from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query, Request, Response

from retrier.api.answers import answer
from retrier.api.event_stream import EventStreamAnswer, Following, event
from retrier.api.filters import PageQuery, page_headers
from retrier.api.parts import Parts
from retrier.api.problems import WrongField
from retrier.domain.identity import canonical, is_guid
from retrier.store.queries.event_log import EventFilter, list_events

router = APIRouter(prefix="/api", tags=["service"])

following = APIRouter(prefix="/api", tags=["service"])
"""The route that does not end; it needs no place among those that read."""

_MOST_DIGITS = 18
_NO_NUMBER = "An event is named by its number: digits, 18 at most."


def _filter(
    kind: Annotated[str, Query(description="a list of kinds, such as retry_asked")] = "",
    operation: Annotated[str, Query(description="the id of an operation")] = "",
    message: Annotated[str, Query(description="the unique id of a failed message")] = "",
) -> EventFilter:
    kinds = frozenset(each for each in kind.replace(" ", "").split(",") if each)
    return EventFilter(
        kinds=kinds or None,
        operation_id=_identified(operation, "query.operation"),
        unique_message_id=_identified(message, "query.message"),
    )


WantedEvents = Annotated[EventFilter, Depends(_filter)]


def _identified(text: str, field: str) -> str | None:
    if text and not is_guid(text):
        raise WrongField(field, "A whole id is wanted here: 36 characters.")
    return canonical(text) if text else None


def _after(
    last_event_id: Annotated[
        str, Header(description="go on after this event; sent by clients that connect again")
    ] = "",
    after: Annotated[
        str, Query(alias="last_event_id", description="the same, for who cannot set headers")
    ] = "",
) -> int | None:
    text, field = (
        (last_event_id, "header.Last-Event-ID") if last_event_id else (after, "query.last_event_id")
    )
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS):
        raise WrongField(field, _NO_NUMBER)
    return int(text)


@router.get("/eventlogitems")
def get_event_log(
    request: Request, parts: Parts, page: PageQuery, wanted: WantedEvents
) -> Response:
    """List what happened, newest first."""
    found = list_events(parts.db, page, wanted)
    items = [event(each) for each in found.items]
    return answer(request, items, page_headers(request, page, found.total))


@following.get("/events", response_class=Response)
async def follow_events(
    parts: Parts, wanted: WantedEvents, after: Annotated[int | None, Depends(_after)]
) -> Response:
    """Tell what happens as it happens, as server-sent events; the answer does not end."""
    return EventStreamAnswer(parts, Following(after=after, wanted=wanted))
