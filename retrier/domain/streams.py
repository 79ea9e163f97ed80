"""Streams: messages of one queue that belong in an order, and what holds one of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from retrier.domain.failed_message import Disposition, FailedMessageStatus
from retrier.domain.times import show_time


class StreamRule(StrEnum):
    """What a policy says about a message of a stream.

    STRICT   it is not retried while an earlier message of its stream is open.
    RELEASE  it is retried, whatever becomes of the earlier ones.
    """

    STRICT = "strict"
    RELEASE = "release"


LONGEST_LOOK_WAIT = timedelta(seconds=2)
SHORTEST_LOOK_WAIT = timedelta(milliseconds=100)
_LOOK_SHARE = 5


def wait_for_look(waited: timedelta, took: timedelta) -> timedelta:
    """Return how long an operation waits for its next look after one in vain.

    `waited` is how long it waited for this one, `took` how long it took. A stream that moves is
    looked at soon, one that stands every 2 seconds. What takes long is not done all the time.
    """
    longer = min(2 * waited, LONGEST_LOOK_WAIT)
    return max(longer, _LOOK_SHARE * took)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldLooks:
    """When operations look again of which earlier messages of streams hold the rest.

    `marks` gives, by operation, the mark that was found before its last look: with the same mark
    nothing has changed since. `after` is how long it waits after a look in vain.
    """

    marks: Mapping[str, str] = field(default_factory=dict)
    after: timedelta = LONGEST_LOOK_WAIT


LOOK_AT_ALL = HeldLooks()


@dataclass(frozen=True, slots=True, order=True)
class Stream:
    """A stream: its id is unique only within a queue, the one where its messages failed first."""

    queue: str
    stream_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """The ids of the messages that were let go, in the order of their stream.

    `not_held` are those named that nothing held.
    """

    ids: tuple[str, ...]
    not_held: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownStream:
    """No message of such a stream is open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotInStream:
    """These ids are not those of messages of the stream: nothing was released."""

    ids: tuple[str, ...]


class HeadState(StrEnum):
    """What the first message of a stream waits for: its disposition, or the outcome of its retry."""

    MANUAL = Disposition.MANUAL
    SCHEDULED = Disposition.SCHEDULED
    DEAD = Disposition.DEAD
    ON_ITS_WAY = "on_its_way"


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The earliest open message of a stream before another one: it holds that one.

    `on_its_way` means that a retry has claimed it and its message is not sent yet. `waits_because`
    says what else holds it, `is_due` that its time has come.
    """

    unique_message_id: str
    stream_id: str
    status: FailedMessageStatus
    disposition: Disposition
    retry_at: datetime | None
    on_its_way: bool
    waits_because: str | None = None
    is_due: bool = False


_HELD = "held behind"


def tells_held(why: str) -> bool:
    """Say whether a reason to wait is that an earlier message of a stream holds another."""
    return _HELD in why.lower()


def tell_held(head: Head) -> str:
    """Say what holds a message, and what that one waits for."""
    return f"{_HELD} {head.unique_message_id} (stream {head.stream_id}), {tell_state(head)}"


def tell_state(head: Head) -> str:
    """Say what a message waits for, as the end of a sentence about it."""
    if head.status is FailedMessageStatus.RETRY_ISSUED:
        return "whose retry was sent and has neither succeeded nor failed yet"
    if head.on_its_way:
        return "whose retry is on its way"
    if head.waits_because is not None and head.disposition is not Disposition.DEAD:
        return f"which is not retried now: {head.waits_because}"
    match head.disposition:
        case Disposition.SCHEDULED:
            return _tell_scheduled(head)
        case Disposition.DEAD:
            return "which is dead: archive, resolve or revive it, or release the stream"
        case Disposition.MANUAL:
            return "which waits for a person"


def _tell_scheduled(head: Head) -> str:
    if head.is_due:
        return "which is due, and is retried when its turn comes"
    due = f" at {show_time(head.retry_at)}" if head.retry_at else ""
    return f"which is retried by itself{due}"
