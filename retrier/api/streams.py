"""Streams: those with open messages, one of them in its order, and its release."""

from typing import Annotated

from fastapi import Query, Request
from pydantic import BaseModel, ConfigDict, Field

from retrier.api.answers import (
    Answer,
    Refusal,
    Routes,
    accepted,
    answer,
    present,
    problem,
    time,
    told,
)
from retrier.api.parts import ApiParts, Parts
from retrier.api.requests import InContext, Line, PageQuery, page_headers
from retrier.api.selections import PlanText, named_plan, refuse_plan
from retrier.api.shapes import PlannedTotal, camel
from retrier.api.shapes import service as shapes
from retrier.domain.retry_operation import INEXACT, OF_ANOTHER, RELEASE, hash_words
from retrier.domain.streams import Head, NotInStream, Released, Stream, UnknownStream, tell_state
from retrier.store.selections import CHUNK
from retrier.store.streams import (
    ListedStream,
    StreamDetails,
    StreamMessage,
    find_stream,
    list_streams,
    plan_release,
)


def shown_stream(shown: ListedStream) -> shapes.Stream:
    """Show a stream: how much of it is open and held, and what its head waits for."""
    return {
        "id": shown.stream.stream_id,
        "queue": shown.stream.queue,
        "open": shown.open,
        "held": shown.held,
        "released": shown.released,
        "head": _head(shown.head),
    }


def details(found: StreamDetails) -> shapes.StreamDetails:
    """Show a stream with one page of its open messages, in its order."""
    return {
        **shown_stream(found.listed),
        "messages": [_message(each) for each in found.messages.items],
    }


def released(done: Released) -> shapes.ReleasedMessages:
    """Show what was let go."""
    return {"released": len(done.ids), "ids": list(done.ids), "not_held": list(done.not_held)}


def _head(head: Head) -> shapes.StreamHead:
    view: shapes.StreamHead = {
        "id": head.unique_message_id,
        "status": camel(head.status),
        "disposition": head.disposition,
        "retry_at": time(head.retry_at),
        "state": f"a message {tell_state(head)}",
    }
    return present(view)


def _message(shown: StreamMessage) -> shapes.StreamMessage:
    view: shapes.StreamMessage = {
        "id": shown.unique_message_id,
        "status": camel(shown.status),
        "disposition": shown.disposition,
        "retry_at": time(shown.retry_at),
        "rule": shown.stream_rule,
        "released": shown.released,
        "on_its_way": shown.on_its_way,
        "first_failure": time(shown.first_failure),
        "last_failure": time(shown.last_failure),
        "held_because": shown.held_because,
    }
    return present(view)


router = Routes(prefix="/api/streams", tags=["streams"])

_SHOWN_IDS = 20

Queue = Annotated[str, Query(min_length=1, description="the queue where its messages failed")]
InQueue = Annotated[str, Query(description="only the streams of this queue")]
OnlyHeld = Annotated[bool, Query(description="only streams with held messages")]


class Release(BaseModel):
    """What POST takes: nothing releases all that is held now, `ids` only these messages.

    With `plan` only what its preview counted of all.
    """

    model_config = ConfigDict(extra="forbid")

    ids: Annotated[list[Line], Field(min_length=1, max_length=CHUNK)] | None = None
    plan: PlanText | None = None


@router.get("")
def get_streams(
    request: Request, parts: Parts, page: PageQuery, queue: InQueue = "", *, held: OnlyHeld = False
) -> Answer[list[shapes.Stream]]:
    """List the streams with open messages, those with most held messages first."""
    found = list_streams(parts.db, page, queue or None, only_held=held)
    items = [shown_stream(each) for each in found.items]
    return answer(request, items, page_headers(request, page, found.total))


@router.get("/{stream_id:path}")
def get_stream(
    request: Request, stream_id: str, queue: Queue, parts: Parts, page: PageQuery
) -> Answer[shapes.StreamDetails] | Refusal:
    """Return a stream with its open messages in their order."""
    found = find_stream(parts.db, Stream(queue, stream_id), page)
    if found is None:
        return _unknown(stream_id, queue)
    return answer(request, details(found), page_headers(request, page, found.messages.total))


@router.post("/{stream_id:path}/release/preview", status_code=200)
def preview_release(stream_id: str, queue: Queue, parts: Parts) -> Answer[PlannedTotal]:
    """Count what a release of all that is held would let go."""
    return told(_look_at(parts, Stream(queue, stream_id)))


def _look_at(parts: ApiParts, stream: Stream) -> PlannedTotal:
    found = plan_release(parts.db, stream)
    return {"total": found.total, "plan": found.plan.token}


@router.post("/{stream_id:path}/release", status_code=202, name="release_stream")
def release(
    stream_id: str, queue: Queue, parts: Parts, context: InContext, body: Release | None = None
) -> Answer[shapes.ReleasedMessages] | Refusal:
    """Let messages be retried before earlier ones of their stream: all that is held, or these."""
    asked, stream = body or Release(), Stream(queue, stream_id)
    ids, plan = asked.ids, named_plan(asked.plan)
    if plan is not None and plan.subject != hash_words(RELEASE, queue, stream_id):
        return refuse_plan(OF_ANOTHER, _look_at(parts, stream))
    if plan is not None and plan.numbers is None:
        return refuse_plan(INEXACT, _look_at(parts, stream))
    counted = None if plan is None else plan.numbers
    done = context.gateway.release_stream(stream, ids, context.requested_by, counted)
    match done:
        case UnknownStream():
            return _unknown(stream_id, queue)
        case NotInStream(ids=strangers):
            shown = ", ".join(each[:100] for each in strangers[:_SHOWN_IDS])
            more = f" and {len(strangers) - _SHOWN_IDS} more" if strangers[_SHOWN_IDS:] else ""
            return problem(
                409, f"Not in this stream: {shown}{more}. Nothing was released.", advice=_LOOK
            )
        case _:
            return accepted(released(done))


_LOOK = "See which messages it has: GET /api/streams/{id}?queue=..."


def _unknown(stream_id: str, queue: str) -> Refusal:
    return problem(
        404, f"No open message belongs to the stream {stream_id[:100]} of queue {queue[:100]}."
    )
