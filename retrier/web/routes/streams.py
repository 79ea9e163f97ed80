"""Streams: listed with their heads, one in its order, and the release of what is held."""

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, HTTPException, Query, Request, Response

from retrier.domain.retry_operation import INEXACT, RELEASE, hash_words
from retrier.domain.streams import NotInStream, Stream, UnknownStream
from retrier.store.queries.ordering import PageRequest
from retrier.store.queries.streams import find_stream, list_streams, plan_release
from retrier.web.forms import Form, SentForm
from retrier.web.parts import Parts
from retrier.web.showing import see_other, show
from retrier.web.strays import IN_FULL
from retrier.web.views.pages import PAGE, Listing, page_number
from retrier.web.views.streams import (
    PLACE,
    StreamList,
    ask_release,
    placed,
    stream_link,
    stream_page,
    stream_row,
    tell_held_in_all,
)

router = APIRouter(prefix=PLACE)

LONGEST_IDS = 10_000
"""Bytes of the ids in a form: a page of them fits."""

PageText = Annotated[str, Query(alias="page")]
Ids = Annotated[Sequence[str], Query(alias="id")]


@router.get("")
def get_streams(
    request: Request, parts: Parts, queue: str = "", held: str = "", page: PageText = ""
) -> Response:
    """List the streams with open messages, those with most held messages first."""
    wanted, in_all = PageRequest(number=page_number(page), size=PAGE), parts.counts.look().held
    found = list_streams(parts.db, wanted, queue or None, only_held=bool(held))
    listing = Listing(
        rows=[stream_row(each) for each in found.items],
        total=found.total,
        number=wanted.number,
        path=PLACE,
        values={"queue": queue, "held": "1" if held else ""},
    )
    view = StreamList(
        listing=listing,
        lead=tell_held_in_all(in_all),
        held=in_all.messages,
        only_held=bool(held),
        queue=queue,
    )
    return show(request, "streams.html", view, current=PLACE)


@router.get("/one")
def get_stream(
    request: Request, parts: Parts, queue: str = "", stream: str = "", page: PageText = ""
) -> Response:
    """Show the open messages of a stream in their order, and what holds each."""
    up_to = parts.counts.look().up_to
    wanted = PageRequest(number=page_number(page), size=PAGE)
    found = find_stream(parts.db, Stream(queue, stream), wanted)
    if found is None:
        raise _unknown(queue, stream)
    listing = Listing(
        rows=placed(found, wanted.offset + 1),
        total=found.messages.total,
        number=wanted.number,
        path=f"{PLACE}/one",
        values={"queue": queue, "stream": stream},
    )
    return show(request, "stream.html", stream_page(found, listing, up_to), current=PLACE)


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
    question = ask_release(found.listed, chosen, held, stream_link(wanted))
    return show(request, "question.html", question, current=PLACE)


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
            told = "released" if done.ids else "unchanged"
            return see_other(form.next(told, PLACE))


def _counted(form: Form, stream: Stream) -> tuple[int, ...]:
    """Return the failure numbers of what the question counted. Raises HTTPException."""
    numbers = form.plan(hash_words(RELEASE, stream.queue, stream.stream_id)).numbers
    if numbers is None:
        raise HTTPException(409, f"{INEXACT}. Release some by their ids.")
    return numbers


def _unknown(queue: str, stream: str) -> HTTPException:
    text = f"No open message belongs to the stream {stream[:100]} of queue {queue[:100]}."
    return HTTPException(404, text)
