"""Bodies as PHP's serializer of Symfony Messenger writes them, with its lengths; and their reading.

Both are written for the tests alone: the product never makes a value of such a body.
"""

from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass

_SLASH, _ZERO = b"\\0"
NAMESPACE = "Symfony\\Component\\Messenger"
STAMP = NAMESPACE + "\\Stamp\\"
ERROR, REDELIVERY = STAMP + "ErrorDetailsStamp", STAMP + "RedeliveryStamp"
DELAY, SENT = STAMP + "DelayStamp", STAMP + "SentToFailureTransportStamp"
BUS = STAMP + "BusNameStamp"


@dataclass(frozen=True)
class Table:
    """An array of PHP; its order counts."""

    pairs: tuple[tuple[object, object], ...] = ()


@dataclass(frozen=True)
class PhpObject:
    """An object of PHP: names of members as PHP writes them, the private ones with their class."""

    of: str
    members: tuple[tuple[object, object], ...] = ()


@dataclass(frozen=True)
class Case:
    """A case of an enumeration."""

    name: str


def private(of: str, **members: object) -> PhpObject:
    """Return an object all whose members are private."""
    return PhpObject(of, tuple((f"\0{of}\0{name}", value) for name, value in members.items()))


def each(*values: object) -> Table:
    """Return a list."""
    return Table(tuple(enumerate(values)))


def serialise(value: object) -> bytes:
    """Write a value as PHP does."""
    match value:
        case Table(pairs):
            return b"a:%d:{%b}" % (len(pairs), _pairs(pairs))
        case PhpObject(of, members):
            return b"O:%b:%d:{%b}" % (serialise(of)[2:-1], len(members), _pairs(members))
        case Case(name):
            return b"E" + serialise(name)[1:]
        case str():
            return serialise(value.encode())
        case bytes():
            return b's:%d:"%b";' % (len(value), value)
        case _:
            return _scalar(value).encode()


def _scalar(value: object) -> str:
    match value:
        case None:
            return "N;"
        case bool() | int():
            return f"{'b' if isinstance(value, bool) else 'i'}:{value:d};"
        case float():
            return f"d:{value!r};".replace("e", "E").replace("inf", "INF")
        case _:
            raise TypeError(value)


def _pairs(pairs: Sequence[tuple[object, object]]) -> bytes:
    return b"".join(serialise(part) for pair in pairs for part in pair)


def envelope(message: object, *stamps: tuple[str, Table]) -> PhpObject:
    """Return an envelope of Messenger with stamps by class, in this order."""
    return private(NAMESPACE + "\\Envelope", stamps=Table(stamps), message=message)


def failed_with(
    text: str = "no stock left", of: str = "RuntimeException", tries: int = 2
) -> list[tuple[str, Table]]:
    """Return the stamps that a failure adds, as Messenger 5.4 writes them."""
    when = PhpObject(
        "DateTimeImmutable",
        (("date", "2026-05-04 12:00:00.000000"), ("timezone_type", 3), ("timezone", "UTC")),
    )
    error = {"exceptionClass": of, "exceptionCode": 0, "exceptionMessage": text}
    again = {"redeliveredAt": when, "exceptionMessage": None, "flattenException": None}
    counts = [*range(1, tries + 1), 0]
    return [
        (ERROR, each(private(ERROR, **error, flattenException=None))),
        (REDELIVERY, each(*(private(REDELIVERY, retryCount=n, **again) for n in counts))),
        (DELAY, each(private(DELAY, delay=500), private(DELAY, delay=0))),
        (SENT, each(private(SENT, originalReceiverName="async"))),
    ]


def sent(value: object) -> bytes:
    """Return a value as Messenger sends it: with slashes, and in base64 if it is no UTF-8."""
    return sent_text(serialise(value))


def sent_text(text: bytes) -> bytes:
    """Return a serialised text as Messenger sends it."""
    for special, slashed in ((b"\\", b"\\\\"), (b'"', b'\\"'), (b"'", b"\\'"), (b"\0", b"\\0")):
        text = text.replace(special, slashed)
    try:
        text.decode()
    except UnicodeDecodeError:
        return b64encode(text)
    return text


def read(body: bytes) -> object:
    """Read a body back to the values it was written from. Raises ValueError."""
    if not body.endswith(b"}"):
        body = b64decode(body, validate=True)
    plain, rest = bytearray(), iter(body)
    for byte in rest:
        escaped = next(rest) if byte == _SLASH else byte
        plain.append(0 if byte == _SLASH and escaped == _ZERO else escaped)
    value, end = _read(bytes(plain), 0)
    if end != len(plain):
        raise ValueError(end)
    return value


def _read(text: bytes, at: int) -> tuple[object, int]:
    kind, rest = text[at : at + 1], at + 2
    if kind == b"N":
        return None, rest
    if kind in (b"b", b"i", b"d"):
        end = text.index(b";", rest)
        told = text[rest:end]
        return (float(told) if kind == b"d" else int(told)), end + 1
    colon = text.index(b":", rest)
    number, begin = int(text[rest:colon]), colon + 2
    if kind in (b"s", b"E"):
        told = text[begin : begin + number]
        return (
            told if kind == b"s" else Case(told.decode(errors="backslashreplace"))
        ), begin + number + 2
    name = None
    if kind == b"O":
        name, begin = (
            text[begin : begin + number].decode(errors="backslashreplace"),
            begin + number + 2,
        )
        colon = text.index(b":", begin)
        number, begin = int(text[begin:colon]), colon + 2
    elif kind != b"a":
        raise ValueError(kind)
    pairs = []
    for _ in range(number):
        key, begin = _read(text, begin)
        value, begin = _read(text, begin)
        pairs.append((key, value))
    found = Table(tuple(pairs)) if name is None else PhpObject(name, tuple(pairs))
    return found, begin + 1
