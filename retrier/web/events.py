"""The event log, newest first, narrowed by what people ask for; the history of retries."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException, Request, Response

from retrier.domain.events import KINDS, read_kinds
from retrier.domain.retry_operation import RetryType
from retrier.http.filters import YES, EventQuery, read_events
from retrier.store.event_log import (
    EventFilter,
    LoggedEvent,
    find_newest_event,
    list_newest_events,
)
from retrier.store.operation_lists import read_history
from retrier.web.approvals import why_not_own
from retrier.web.messages import Token
from retrier.web.operation_lines import operation_line
from retrier.web.page import show
from retrier.web.pages import PAGE, PagedList
from retrier.web.parts import Parts

PATH = "/events"

RETRY_TYPES = {
    RetryType.SINGLE_MESSAGE: "one message",
    RetryType.MULTIPLE_MESSAGES: "several messages",
    RetryType.FAILURE_GROUP: "a group",
    RetryType.ALL_FOR_ENDPOINT: "an endpoint",
    RetryType.BY_QUEUE_ADDRESS: "a queue",
    RetryType.ALL: "all messages",
    RetryType.BY_POLICY: "by policy",
    RetryType.EDIT: "an edited message",
}
"""What was retried, as the history says it."""

router = APIRouter(prefix=PATH)

_MOST_DIGITS = 18


_TOKENS: Mapping[str, str] = {
    "kind": "kind",
    "who": "by",
    "people": "people only",
    "routine": "with routine",
    "since": "since",
    "until": "until",
    "operation": "operation",
    "message": "message",
}


@router.get("")
def get_events(
    request: Request,
    parts: Parts,
    query: Annotated[EventQuery, Depends()],
    also: str = "",
    before: str = "",
) -> Response:
    """Show what happened, newest first; `also` is one more kind, from the form.

    New events are only counted where the log is not narrowed: nobody knows which ones would match.
    """
    if also:
        query = replace(query, kind=",".join(sorted(read_kinds(query.kind) | read_kinds(also))))
    wanted = read_events(query, parts.db)
    # Read before the list: an event that comes in between is then counted as new, and not lost.
    newest = find_newest_event(parts.db)
    # One more than is shown says whether there are more.
    found = list_newest_events(parts.db, PAGE + 1, wanted, before=_number(before))
    shown = found[:PAGE]
    here = PagedList(rows=shown, total=len(shown), number=1, path=PATH, values=query.values)
    return show(
        request,
        "events.html",
        current=PATH,
        events=shown,
        query=query,
        tokens=tuple(_tokens(here, wanted)),
        kinds=[each for each in KINDS if each not in (wanted.kinds or ())],
        newest=here.to() if before else None,
        older=here.to(before=str(shown[-1].event_id)) if len(found) > PAGE else None,
        with_routine=here.to(routine=YES),
        since_moment=_as_written(wanted.since),
        until_moment=_as_written(wanted.until),
        since="" if query.values or before else str(newest),
    )


def _tokens(here: PagedList[LoggedEvent], wanted: EventFilter) -> Iterator[Token]:
    """Return the conditions, a token for each kind."""
    times = {"since": wanted.since, "until": wanted.until}
    kinds = sorted(wanted.kinds or ())
    for name, words in _TOKENS.items():
        if name == "kind":
            for kind in kinds:
                others = ",".join(each for each in kinds if each != kind)
                yield Token(name=words, value=kind.replace("_", " "), without=here.to(kind=others))
        elif name in here.values:
            said = "" if name in {"people", "routine"} else here.values[name]
            yield Token(
                name=words, value=said, without=here.to(**{name: ""}), moment=times.get(name)
            )


def _as_written(moment: datetime | None) -> str:
    """Return a time as a field of a form has it."""
    return "" if moment is None else moment.isoformat(timespec="seconds")[:19]


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
    shown = (*found.unacknowledged, *found.historic)
    # They are over: nothing of their lines depends on the time.
    lines = {each.operation_id: operation_line(each, each.created_at) for each in shown}
    return show(
        request,
        "history.html",
        current="/history",
        unseen=found.unacknowledged,
        last=found.historic,
        lines=lines,
        retry_types=RETRY_TYPES,
        why_not={
            each.operation_id: why_not_own(parts, each.operation_id)
            for each in found.unacknowledged
        },
    )
