"""Streams: listed with their heads, one in its order, and the release of what is held."""

from collections.abc import Sequence
from datetime import datetime
from hashlib import sha256
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, HTTPException, Query, Request, Response

from retrier.domain.failed_message import Disposition, FailedMessageStatus
from retrier.domain.retry_operation import INEXACT, RELEASE, hash_words
from retrier.domain.streams import NotInStream, Stream, UnknownStream, tell_state
from retrier.domain.values import dataclass
from retrier.http.views import ANY_STATUS
from retrier.store.message_lists import PageRequest
from retrier.store.streams import (
    HeldMessages,
    HeldNow,
    ListedStream,
    PlaceInStream,
    StreamMessage,
    find_stream,
    list_streams,
    plan_release,
)
from retrier.web.forms import Form, QuestionForm, SentForm
from retrier.web.page import IN_FULL, see_other, show
from retrier.web.pages import PAGE, PagedList, page_number
from retrier.web.parts import Parts
from retrier.web.wording import DISPOSITIONS, STATUSES, number, plainly, plural

PATH = "/streams"
_DIGITS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRow:
    """One stream; `waits_for` says what its head waits for. `live` begins its live keys."""

    stream: Stream
    link: str
    open: int
    held: int
    released: str
    head_id: str
    waits_for: str
    since: datetime
    live: str


def stream_link(stream: Stream) -> str:
    """Return the address of the page of a stream."""
    return f"{PATH}/one?{urlencode({'queue': stream.queue, 'stream': stream.stream_id})}"


def row_key(stream: Stream) -> str:
    """Return how the live keys of a stream begin: its names may be long, and have any letter."""
    names = f"{stream.queue}\0{stream.stream_id}"
    return f"stream/{sha256(names.encode()).hexdigest()[:_DIGITS]}"


def message_link(unique_id: str) -> str:
    """Return the address of the page of a message."""
    return f"/messages/{unique_id}"


def link_of_place(place: PlaceInStream) -> str:
    """Return the address of the stream of a message, or of its messages if none is open."""
    stream = place.stream
    done = {"status": ANY_STATUS, "stream": stream.stream_id}
    return stream_link(stream) if place.open else f"/messages?{urlencode(done)}"


def tell_held_in_all(held: HeldMessages) -> str:
    """Say how much streams hold."""
    if not held.messages:
        return "No message is held."
    be = "is" if held.messages == 1 else "are"
    where = plural(held.streams, "stream")
    return f"{plural(held.messages, 'message')} {be} held behind earlier ones, in {where}."


def stream_row(listed: ListedStream) -> StreamRow:
    """Return a stream as a row of the list."""
    count = listed.released
    return StreamRow(
        stream=listed.stream,
        link=stream_link(listed.stream),
        open=listed.open,
        held=listed.held,
        released=f"{plural(count, 'message')} released by hand" if count else "",
        head_id=listed.head.unique_message_id,
        waits_for=f"The first is one {plainly(tell_state(listed.head))}.",
        since=listed.since,
        live=row_key(listed.stream),
    )


def _lead(listed: ListedStream) -> str:
    count = f"{plural(listed.open, 'message')} {'is' if listed.open == 1 else 'are'} open"
    state = plainly(tell_state(listed.head))
    if not listed.held:
        return f"{count}, and nothing is held. The first is one {state}."
    be = "is" if listed.held == 1 else "are"
    return f"{count}. {number(listed.held)} {be} held behind the first, {state}."


def state_in_stream(each: StreamMessage) -> tuple[str, str]:
    """Return in few words what keeps a message from being done, and the tone of these words."""
    if each.held_because is not None:
        return "held", "wait"
    if each.status is FailedMessageStatus.RETRY_ISSUED or each.on_its_way:
        return STATUSES[FailedMessageStatus.RETRY_ISSUED]
    if each.disposition is not Disposition.MANUAL:
        return DISPOSITIONS[each.disposition]
    # Most of a stream are: in red they would hide what is dead.
    return STATUSES[FailedMessageStatus.UNRESOLVED][0], ""


_NOT_YET = (
    "They are not retried by that: they go with the operation that waits for them, or when you ask "
    "for it. What fails again, and what comes later, is held as before."
)


def release_question(
    listed: ListedStream, ids: Sequence[str], held: HeldNow, back: str
) -> QuestionForm:
    """Return the question before all that is held is released, or messages with these ids."""
    stream = listed.stream
    count = plural(len(ids) if ids else held.total, "message")
    name = f"Release {count}" if ids or held.total else ""
    plan = {} if ids else {"plan": held.plan.token}
    return QuestionForm(
        title=f"{name}?" if name else "Nothing is held",
        what=f"Stream {stream.stream_id} of the queue {stream.queue}",
        text="They may be retried before the earlier messages of their stream. It cannot be undone."
        if name
        else "",
        notes=(
            f"The first message is one {plainly(tell_state(listed.head))}.",
            _NOT_YET,
        ),
        post_to=f"{PATH}/release",
        back=back,
        button=name,
        fields=[
            ("queue", stream.queue),
            ("stream", stream.stream_id),
            ("ids", " ".join(ids)),
            *plan.items(),
        ],
        why="",
    )


router = APIRouter(prefix=PATH)

LONGEST_IDS = 10_000
"""Bytes of the ids in a form: a page of them fits."""

PageText = Annotated[str, Query(alias="page")]
Ids = Annotated[Sequence[str], Query(alias="id")]


@router.get("")
def get_streams(
    request: Request, parts: Parts, queue: str = "", held: str = "", page: PageText = ""
) -> Response:
    """List the streams with open messages, those with most held messages first."""
    wanted, in_all = PageRequest(number=page_number(page), size=PAGE), parts.counts.snapshot().held
    found = list_streams(parts.db, wanted, queue or None, only_held=bool(held))
    listing = PagedList(
        rows=[stream_row(each) for each in found.items],
        total=found.total,
        number=wanted.number,
        path=PATH,
        values={"queue": queue, "held": "1" if held else ""},
    )
    return show(
        request,
        "streams.html",
        current=PATH,
        listing=listing,
        lead=tell_held_in_all(in_all),
        held=in_all.messages,
        only_held=bool(held),
        queue=queue,
    )


@router.get("/one")
def get_stream(
    request: Request, parts: Parts, queue: str = "", stream: str = "", page: PageText = ""
) -> Response:
    """Show the open messages of a stream in their order, and what holds each."""
    up_to = parts.counts.snapshot().up_to
    wanted = PageRequest(number=page_number(page), size=PAGE)
    found = find_stream(parts.db, Stream(queue, stream), wanted)
    if found is None:
        raise _unknown(queue, stream)
    listing = PagedList(
        rows=found.messages.items,
        total=found.messages.total,
        number=wanted.number,
        path=f"{PATH}/one",
        values={"queue": queue, "stream": stream},
    )
    return show(
        request,
        "stream.html",
        current=PATH,
        stream=found.listed.stream,
        held=found.listed.held,
        lead=_lead(found.listed),
        listing=listing,
        up_to=up_to,
        state_in_stream=state_in_stream,
    )


@router.get("/release", dependencies=[IN_FULL])
def ask_before_release(
    request: Request,
    parts: Parts,
    queue: str = "",
    stream: str = "",
    everything: Annotated[str, Query(alias="all")] = "",
    ids: Ids = (),
) -> Response:
    """Say what a release lets go, and ask for it."""
    wanted = Stream(queue, stream)
    if not everything and not ids:
        return see_other(f"{stream_link(wanted)}&done=nothing")
    found = find_stream(parts.db, wanted, PageRequest(size=1))
    if found is None:
        raise _unknown(queue, stream)
    chosen = () if everything else tuple(dict.fromkeys(ids))
    held = plan_release(parts.db, wanted)
    question = release_question(found.listed, chosen, held, stream_link(wanted))
    return show(request, "question.html", current=PATH, question=question)


@router.post("/release")
def release(parts: Parts, form: SentForm) -> Response:
    """Let messages be retried before earlier ones of their stream: all that is held, or these."""
    queue, stream = (next(iter(form.values(name)), "") for name in ("queue", "stream"))
    ids = form.text("ids", LONGEST_IDS).split()
    counted = None if ids else _counted(form, Stream(queue, stream))
    wanted, who = Stream(queue, stream), form.requested_by
    done = parts.gateway.release_stream(wanted, ids or None, who, counted)
    match done:
        case UnknownStream():
            raise _unknown(queue, stream)
        case NotInStream(ids=strangers):
            named = ", ".join(each[:100] for each in strangers[:3])
            raise HTTPException(409, f"Not in this stream: {named}. Nothing was released.")
        case _:
            return see_other(form.next("released" if done.ids else "unchanged", PATH))


def _counted(form: Form, stream: Stream) -> tuple[int, ...]:
    """Return the failure numbers of what the question counted. Raises HTTPException."""
    numbers = form.plan(hash_words(RELEASE, stream.queue, stream.stream_id)).numbers
    if numbers is None:
        raise HTTPException(409, f"{INEXACT}. Release some by their ids.")
    return numbers


def _unknown(queue: str, stream: str) -> HTTPException:
    text = f"No open message belongs to the stream {stream[:100]} of queue {queue[:100]}."
    return HTTPException(404, text)
