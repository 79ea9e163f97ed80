"""The event log: listed, and followed in an answer that does not end."""

from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Annotated

from anyio import to_thread
from fastapi import Depends, Header, HTTPException, Query, Request, Response
from starlette.types import Send

from retrier.api.answers import HEADERS, Answer, Routes, answer, encode, present, time
from retrier.api.live import Relay
from retrier.api.parts import ApiParts, Parts
from retrier.api.places import Followed, followed, read_number
from retrier.api.shapes import messages as shapes
from retrier.domain.values import dataclass
from retrier.errors import RetrierError
from retrier.http.filters import EventQuery, read_events
from retrier.http.live_answer import LiveAnswer, happens, part
from retrier.http.problems import WrongField
from retrier.store.event_log import EventFilter, LoggedEvent, list_events, list_events_after

_AT_ONCE = 500
"""Events that are read at once for a reader that lags behind."""
_WRITTEN_AT_ONCE = 50
"""Events that are written at once; their texts may be long, and the reader slow."""
_BEGINNING = "retry: 2000\nid: {place}\n\n"
"""Milliseconds after which a client connects again, and where it goes on then."""
_COMMENT = ": nothing new\nid: {place}\n\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Following:
    """What a reader asks for: wanted events with ids after this one; None: from now on."""

    after: int | None
    wanted: EventFilter


class EventAnswer:
    """Writes events until the client leaves, the service stops or the database is lost."""

    def __init__(self, parts: ApiParts, asked: Following) -> None:
        self._parts = parts
        self._asked = asked

    async def write(self, relay: Relay, send: Send) -> None:
        """Write what was asked for, and then what happens."""
        after = self._asked.after
        place = relay.position if after is None else min(after, relay.position)
        await send(part(_BEGINNING.format(place=place).encode()))
        while not relay.over.is_set():
            changed = relay.changed
            if place < relay.position:
                try:
                    events, place = await self._find(relay, place)
                except (HTTPException, RetrierError):
                    break  # too late for another status: the client comes again and is told then
                for begin in range(0, len(events), _WRITTEN_AT_ONCE):
                    await send(part(_lines(events[begin : begin + _WRITTEN_AT_ONCE])))
            elif not await happens(changed):
                await send(part(_COMMENT.format(place=place).encode()))

    async def _find(self, relay: Relay, after: int) -> tuple[Sequence[LoggedEvent], int]:
        """Return wanted events, and up to which id these are all."""
        wanted, until = self._asked.wanted, relay.position
        # Who sees some queues only is told what their database shows.
        is_narrow = self._parts.access.seen is not None
        kept = None if is_narrow else relay.find_after(after)
        if kept is not None:
            return [each for each in kept if wanted.accepts(each)], until
        look = partial(list_events_after, until=until, wanted=wanted)
        async with self._parts.reads.taken():
            found = await to_thread.run_sync(look, self._parts.db, after, _AT_ONCE)
        return found, found[-1].event_id if len(found) == _AT_ONCE else until


def _lines(events: Sequence[LoggedEvent]) -> bytes:
    return b"".join(
        b"id: %d\ndata: %b\n\n" % (each.event_id, encode(event(each))) for each in events
    )


# The categories and type names under which clients of ServiceControl know what happens: ServicePulse
# reads the category for its icon and for where a click leads.
_OF_MESSAGES = "MessageFailures"
_RECOVERABILITY = "Recoverability"
_REDIRECTS = "MessageRedirects"

_TYPES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "message_archived": (_OF_MESSAGES, "FailedMessageArchived"),
        "message_unarchived": (_OF_MESSAGES, "FailedMessageUnArchived"),
        "message_resolved": (_OF_MESSAGES, "MessageFailureResolvedManually"),
        "messages_archived": (_RECOVERABILITY, "FailedMessageGroupBatchArchived"),
        "messages_unarchived": (_RECOVERABILITY, "FailedMessageGroupBatchUnarchived"),
        "messages_resolved": (_RECOVERABILITY, "MessageFailureResolvedManually"),
        "archive_completed": (_RECOVERABILITY, "FailedMessageGroupArchived"),
        "unarchive_completed": (_RECOVERABILITY, "FailedMessageGroupUnarchived"),
        "retry_asked": (_RECOVERABILITY, "MessagesSubmittedForRetry"),
        "retry_returned": (_RECOVERABILITY, "MessagesSubmittedForRetryFailed"),
        "redirect_created": (_REDIRECTS, "MessageRedirectCreated"),
        "redirect_changed": (_REDIRECTS, "MessageRedirectChanged"),
        "redirect_deleted": (_REDIRECTS, "MessageRedirectRemoved"),
    }
)
"""Of the kinds that ServiceControl has, too: its category and its name of the type."""


def type_of(kind: str, *, is_of_message: bool) -> tuple[str, str]:
    """Return category and type; what only Retrier knows has a name made of its kind."""
    own = "".join(word.capitalize() for word in kind.split("_"))
    # A click on an event of this category opens its message.
    category, name = _TYPES.get(kind, (_RECOVERABILITY, own))
    return (_OF_MESSAGES, name) if is_of_message else (category, name)


_SEVERITIES: Mapping[str, shapes.Severity] = {
    "retry_returned": "error",
    "failed_import": "error",
    "retry_skipped": "warning",
    "breaker_opened": "warning",
    "batch_held_back": "warning",
    "own_copy_came_back": "warning",
    "copy_of_another_came": "warning",
    "import_kept": "warning",
    "import_not_sent": "warning",
    "import_in_doubt": "error",
    "batch_adopted": "warning",
    "batch_moved": "warning",
    "sent_again": "warning",
    "archive_refused": "warning",
    "unarchive_refused": "warning",
    "resolve_refused": "warning",
}


def event(logged: LoggedEvent) -> shapes.LoggedEvent:
    """Show one event; if it is about a message, that is the first of `related_to`."""
    category, event_type = type_of(logged.kind, is_of_message=logged.unique_message_id is not None)
    related = {
        "message": logged.unique_message_id,
        "operation": logged.operation_id,
        "batch": logged.batch_id,
    }
    view: shapes.LoggedEvent = {
        "id": str(logged.event_id),
        "kind": logged.kind,
        "description": logged.text,
        "severity": _SEVERITIES.get(logged.kind, "info"),
        "raised_at": time(logged.at),
        "related_to": [f"/{kind}/{key}" for kind, key in related.items() if key],
        "category": category,
        "event_type": event_type,
        "who": logged.who,
        "details": logged.details,
    }
    return present(view)


router = Routes(prefix="/api", tags=["service"])

following = Routes(prefix="/api", tags=["service"])
"""The route that does not end; it needs no place among those that read."""

_MOST_DIGITS = 18
_NO_NUMBER = "An event is named by its number: digits, 18 at most."


def _filter(parts: Parts, query: Annotated[EventQuery, Depends()]) -> EventFilter:
    return read_events(query, parts.db)


EventsPage = Annotated[Followed, followed("events", read_number)]
WantedEvents = Annotated[EventFilter, Depends(_filter)]


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
    request: Request, parts: Parts, page: EventsPage, wanted: WantedEvents
) -> Answer[list[shapes.LoggedEvent]]:
    """List what happened, newest first; without `routine=yes` only what is not routine."""
    found = list_events(parts.db, page.wanted, wanted)
    items = [event(each) for each in found.items]
    return answer(request, items, page.headers(request, found))


@following.get("/events", response_class=Response)
async def follow_events(
    parts: Parts, wanted: WantedEvents, after: Annotated[int | None, Depends(_after)]
) -> Response:
    """Tell what happens as it happens, as server-sent events; the answer does not end.

    Without `routine=yes` only what is not routine is told.
    """
    stream = EventAnswer(parts, Following(after=after, wanted=wanted))
    return LiveAnswer(parts.feed.joined, stream.write, HEADERS)
