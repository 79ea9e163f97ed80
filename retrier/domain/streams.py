"""Streams: messages of one queue in an order, what holds one, and the steps that were completed."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from datetime import UTC, datetime, timedelta
from decimal import ROUND_FLOOR, Context, Decimal
from enum import StrEnum

from retrier.domain.failed_message import Disposition, FailedMessageStatus
from retrier.domain.times import EPOCH, parse_iso_time, parse_wire_time, show_time
from retrier.domain.values import dataclass

NO_POSITION = "2"
"""The position of a message that states none: behind those that do, in the order of its number."""

_DIGITS = 20
_DECIMALS = 9
_WIDTH = _DIGITS + _DECIMALS
_NEGATIVE, _POSITIVE = "0", "1"
_NUMBER = re.compile(r"[+-]?[0-9]{1,40}(\.[0-9]{1,40})?", re.ASCII)
_EXACT = Context(prec=200)
"""The usual context rounds to 28 digits, one fewer than a position has."""


def read_position(value: object) -> str | None:
    """Return a position as a text of digits that sorts as the number does; None if it is none.

    A time counts as the seconds since 1970. Numbers have at most 20 digits before the point, and 9
    decimals. All texts have one length and only digits, so every collation sorts them alike.
    """
    number = _number(value)
    if number is None or abs(number) >= 10**_DIGITS:
        return None
    shifted = number.scaleb(_DECIMALS, context=_EXACT)
    scaled = int(shifted.to_integral_value(rounding=ROUND_FLOOR))
    sign, digits = (_POSITIVE, scaled) if scaled >= 0 else (_NEGATIVE, 10**_WIDTH + scaled)
    return f"{sign}{digits:0{_WIDTH}d}"


def show_position(position: str) -> str | None:
    """Return the number of a position, for people; None if it is none."""
    if len(position) != 1 + _WIDTH:
        return None
    digits = int(position[1:])
    scaled = digits if position[0] == _POSITIVE else digits - 10**_WIDTH
    number = Decimal(scaled).scaleb(-_DECIMALS, context=_EXACT)
    return f"{number:f}".rstrip("0").rstrip(".")


def _number(value: object) -> Decimal | None:
    match value:
        case bool():
            return None
        case int() | Decimal():
            return _finite(Decimal(value))
        case float():
            return _finite(Decimal(repr(value)))
        case datetime():
            return _seconds(value if value.tzinfo else value.replace(tzinfo=UTC))
        case str():
            return _of_text(value.strip())
        case _:
            return None


def _finite(number: Decimal) -> Decimal | None:
    return number if number.is_finite() else None


def _of_text(text: str) -> Decimal | None:
    if _NUMBER.fullmatch(text):
        return Decimal(text)
    time = parse_iso_time(text) or parse_wire_time(text)
    return None if time is None else _seconds(time)


def _seconds(time: datetime) -> Decimal:
    since = time - EPOCH
    return Decimal(since.days * 86_400 + since.seconds) + Decimal(since.microseconds).scaleb(-6)


class StreamRule(StrEnum):
    """What a policy says about a message of a stream.

    STRICT   it is not retried while an earlier message of its stream is open.
    RELEASE  it is retried, whatever becomes of the earlier ones.
    """

    STRICT = "strict"
    RELEASE = "release"


LONGEST_LOOK_WAIT = timedelta(seconds=2)
SHORTEST_LOOK_WAIT = timedelta(milliseconds=20)
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


def describe_hold(head: Head) -> str:
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
            return _describe_scheduled(head)
        case Disposition.DEAD:
            return "which is dead: archive, resolve or revive it, or release the stream"
        case Disposition.MANUAL:
            return "which waits for a person"


def _describe_scheduled(head: Head) -> str:
    if head.is_due:
        return "which is due, and is retried when its turn comes"
    due = f" at {show_time(head.retry_at)}" if head.retry_at else ""
    return f"which is retried by itself{due}"


MOST_BYTES = 1024
"""UTF-8 bytes of the names that a retry carries: they go into a header."""

LOOKED_AT = 4 * MOST_BYTES
"""Characters of one attempt that are looked at; see `unite`."""

ATTRIBUTE = "completed_steps"
"""The attribute of an exception that says what was done before it was raised."""

_MOST_CAUSES = 20

_LARGEST = 2**63 - 1
_MOST_DIGITS = len(str(_LARGEST))
_FAILED = 32768
"""The flag with which a consumer says that it failed: no step that it has done."""


def unite(attempts: Iterable[str | None]) -> str | None:
    """Unite what the attempts of a message say, oldest first; None if none of them says anything.

    Flags, as decimal integers of up to 63 bits, are joined by *or*. Anything else is names with
    commas between them: each stays once, in the order in which it came. A step is never taken
    away. Of names that do not fit into 1 kB together, the later ones are left out, never cut: a
    consumer would do a step again, which it can bear, and not take one for another.
    """
    said = [text for text in attempts if text is not None and text.strip()]
    if not said:
        return None
    flags = [_read_flags(text) for text in said]
    if None not in flags:
        return str(_join(each for each in flags if each is not None))
    return ",".join(_fitting(dict.fromkeys(name for text in said for name in _names(text))))


def read_said(value: object) -> tuple[str, ...]:
    """Return what a program says in one value: a name, flags as an integer, or several of them."""
    match value:
        case str():
            return (value,)
        case bool():
            return ()
        case int():
            return (str(value),)
        case list() | tuple() | set() | frozenset():
            return tuple(text for each in value for text in read_said(each))
        case _:
            return ()


def find_said(error: BaseException) -> tuple[str, ...]:
    """Return what an exception says of completed steps, and those that are its causes."""
    said: list[str] = []
    found: BaseException | None = error
    for _ in range(_MOST_CAUSES):
        if found is None:
            break
        said[:0] = read_said(getattr(found, ATTRIBUTE, None))
        found = found.__cause__
    return tuple(said)


def _read_flags(text: str) -> int | None:
    digits = text.strip()
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= _MOST_DIGITS):
        return None
    flags = int(digits)
    return flags if flags <= _LARGEST else None


def _join(flags: Iterable[int]) -> int:
    joined = 0
    for each in flags:
        joined |= each
    return joined & ~_FAILED


def _names(text: str) -> Iterator[str]:
    # The last name of a text of which no more was read may be the beginning of a longer one.
    whole = text if len(text) < LOOKED_AT else text[: text.rfind(",") + 1]
    yield from filter(None, map(str.strip, whole.split(",")))


def _fitting(names: Iterable[str]) -> Iterator[str]:
    left = MOST_BYTES + 1
    for name in names:
        left -= len(name.encode()) + 1
        if left < 0:
            return
        yield name
