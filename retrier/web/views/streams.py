"""Streams: the list with what stands in front of each, and one of them in its order."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from urllib.parse import urlencode

from retrier.domain.failed_message import Disposition, FailedMessageStatus
from retrier.domain.streams import Stream, tell_state
from retrier.domain.waiting import Holding, Reason
from retrier.store.queries.streams import (
    HeldMessages,
    HeldNow,
    ListedStream,
    PlaceInStream,
    StreamDetails,
    StreamMessage,
)
from retrier.web.filters import ANY_STATUS
from retrier.web.views.pages import Listing
from retrier.web.views.questions import Question
from retrier.web.wording import number, plural, sentence

PLACE = "/streams"
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


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamList:
    """All that the list shows. `held` is how many messages are held in all streams."""

    listing: Listing[StreamRow]
    lead: str
    held: int
    only_held: bool
    queue: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedMessage:
    """One message in the order of its stream; `why` says what holds it."""

    place: int
    unique_id: str
    title: str
    message_type: str | None
    words: str
    tone: str
    next_at: datetime | None
    why: str | None
    rule: str
    last_failure: datetime

    @property
    def is_held(self) -> bool:
        """Whether it can be released."""
        return self.why is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamPage:
    """All that the page of one stream shows."""

    listed: ListedStream
    lead: str
    listing: Listing[PlacedMessage]
    up_to: int


def stream_link(stream: Stream) -> str:
    """Return the address of the page of a stream."""
    return f"{PLACE}/one?{urlencode({'queue': stream.queue, 'stream': stream.stream_id})}"


def row_key(stream: Stream) -> str:
    """Return how the live keys of a stream begin: its names may be long, and have any letter."""
    names = f"{stream.queue}\0{stream.stream_id}"
    return f"stream/{sha256(names.encode()).hexdigest()[:_DIGITS]}"


def message_link(unique_id: str) -> str:
    """Return the address of the page of a message."""
    return f"/messages/{unique_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """What keeps a message from being retried. What its stream does is told by its place there."""

    reasons: Sequence[Reason]
    place: PlaceInStream | None

    @property
    def any(self) -> bool:
        """Whether something keeps it."""
        return bool(self.reasons)

    @property
    def notes(self) -> Sequence[tuple[str, bool]]:
        """Why it waits, and whether that is a breaker; without its stream."""
        told = (each for each in self.reasons if each.holding is not Holding.STREAM)
        return [(each.why, each.holding is Holding.BREAKER) for each in told]

    @property
    def stream(self) -> str:
        """The address of its stream, or of its messages if none is open; empty if it is in none."""
        if self.place is None:
            return ""
        stream = self.place.stream
        done = {"status": ANY_STATUS, "stream": stream.stream_id}
        return stream_link(stream) if self.place.open else f"/messages?{urlencode(done)}"


def tell_held_in_all(held: HeldMessages) -> str:
    """Say how much streams hold."""
    if not held.messages:
        return "No message is held."
    be = "is" if held.messages == 1 else "are"
    where = plural(held.streams, "stream")
    return f"{plural(held.messages, 'message')} {be} held behind earlier ones, in {where}."


def stream_row(listed: ListedStream) -> StreamRow:
    """Return a stream as a row of the list."""
    return StreamRow(
        stream=listed.stream,
        link=stream_link(listed.stream),
        open=listed.open,
        held=listed.held,
        released=_released(listed.released),
        head_id=listed.head.unique_message_id,
        waits_for=f"The first is one {tell_state(listed.head)}.",
        since=listed.since,
        live=row_key(listed.stream),
    )


def _released(count: int) -> str:
    return f"{plural(count, 'message')} released by hand" if count else ""


def stream_page(found: StreamDetails, listing: Listing[PlacedMessage], up_to: int) -> StreamPage:
    """Return the page of a stream."""
    return StreamPage(listed=found.listed, lead=_lead(found.listed), listing=listing, up_to=up_to)


def _lead(listed: ListedStream) -> str:
    count = f"{plural(listed.open, 'message')} {'is' if listed.open == 1 else 'are'} open"
    state = tell_state(listed.head)
    if not listed.held:
        return f"{count}, and nothing is held. The first is one {state}."
    be = "is" if listed.held == 1 else "are"
    return f"{count}. {number(listed.held)} {be} held behind the first, {state}."


def placed(found: StreamDetails, first: int) -> Sequence[PlacedMessage]:
    """Return its messages in their order; the place of the first one here is given."""
    return [_placed(each, place) for place, each in enumerate(found.messages.items, first)]


def _placed(each: StreamMessage, place: int) -> PlacedMessage:
    words, tone = _state(each)
    scheduled = each.disposition is Disposition.SCHEDULED and each.held_because is None
    return PlacedMessage(
        place=place,
        unique_id=each.unique_message_id,
        title=each.exception_type or "no exception given",
        message_type=each.message_type,
        words=words,
        tone=tone,
        next_at=each.retry_at if scheduled and not each.on_its_way else None,
        why=None if each.held_because is None else sentence(each.held_because),
        rule=_rule(each),
        last_failure=each.last_failure,
    )


def _state(each: StreamMessage) -> tuple[str, str]:
    """Return in few words what keeps a message from being done, and the tone of these words."""
    if each.held_because is not None:
        return "held", "wait"
    if each.status is FailedMessageStatus.RETRY_ISSUED or each.on_its_way:
        return "being retried", "wait"
    match each.disposition:
        case Disposition.DEAD:
            return "dead", "bad"
        case Disposition.SCHEDULED:
            return "retried", "wait"
        case Disposition.MANUAL:
            return "unresolved", ""


def _rule(each: StreamMessage) -> str:
    if each.released:
        return "released by hand"
    return each.stream_rule or "none"


_NOT_YET = (
    "They are not retried by that: they go with the operation that waits for them, or when you ask "
    "for it. What fails again, and what comes later, is held as before."
)


def ask_release(listed: ListedStream, ids: Sequence[str], held: HeldNow, back: str) -> Question:
    """Return the question before all that is held is released, or messages with these ids."""
    stream = listed.stream
    count = plural(len(ids) if ids else held.total, "message")
    name = f"Release {count}" if ids or held.total else ""
    plan = {} if ids else {"plan": held.plan.token}
    return Question(
        title=f"{name}?" if name else "Nothing is held",
        what=f"Stream {stream.stream_id} of the queue {stream.queue}",
        text="They may be retried before the earlier messages of their stream. It cannot be undone."
        if name
        else "",
        notes=(
            f"The first message is one {tell_state(listed.head)}.",
            _NOT_YET,
        ),
        post_to=f"{PLACE}/release",
        back=back,
        button=name,
        fields={"queue": stream.queue, "stream": stream.stream_id, "ids": " ".join(ids), **plan},
        why="",
    )
