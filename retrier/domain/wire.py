"""A message as it goes over the wire: raw property bytes and body, never interpreted on the way."""

import codecs
import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import field
from functools import lru_cache
from typing import Protocol

from retrier.domain.values import dataclass


class UnreadableProperties(ValueError):
    """The property bytes of a message cannot be decoded."""


class NotOfItsType(ValueError):
    """A header says of which type its value is, and what it is set to is no such; its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A message that a queue delivered and that is not acknowledged yet.

    Only the consumer that made `tag` understands it. `routing_key` is the key with which an exchange
    routed it to the queue; empty if it was sent there by the queue's name, or nobody knows.
    """

    tag: object
    queue: str
    raw: bytes
    body: bytes
    redelivered: bool
    routing_key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """A message to be published to a queue, through the default exchange.

    `repeatable`: a second one does no harm, as who reads them knows it by an id. So a publisher may
    send it again instead of leaving it in doubt.
    """

    queue: str
    raw: bytes
    body: bytes
    repeatable: bool = False


@dataclass(frozen=True, slots=True)
class Confirmed:
    """The broker has taken the message over and did not return it."""


@dataclass(frozen=True, slots=True)
class Returned:
    """The broker returned the message: there is no queue of that name.

    `may_have_arrived`: an earlier try was left in doubt.
    """

    reason: str
    may_have_arrived: bool = False


@dataclass(frozen=True, slots=True)
class Refused:
    """The broker (by a negative acknowledgement) or the client library refused this message.

    `may_have_arrived`: it may be on its queue all the same, because an earlier try was left in
    doubt, or because the broker says that it has stored something else than it was sent.
    `unsendable`: it will be refused each time, for what it is: its size, its headers.
    """

    reason: str
    may_have_arrived: bool = False
    unsendable: bool = False


@dataclass(frozen=True, slots=True)
class ChannelClosed:
    """Unsettled because the broker closed the channel: one message of the window is the cause.

    `unsendable`: that one will be refused each time, for what it is.
    """

    reason: str
    unsendable: bool = False


@dataclass(frozen=True, slots=True)
class Unknown:
    """Unsettled because the connection broke: the broker may or may not have the message."""

    reason: str


Outcome = Confirmed | Returned | Refused | ChannelClosed | Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Properties:
    """The raw properties, decoded for reading only; no message is ever built from this.

    Header values are str, int, float, bool, Decimal, bytes, datetime, None, list or dict;
    text that is not UTF-8 is shown with backslash escapes, a time out of range as its number.
    """

    headers: Mapping[str, object]
    fields: Mapping[str, str | int]

    def text(self, header: str) -> str | None:
        """Return a header as text; None when it is absent or empty.

        It runs many times for each ingested message, and nearly every value is a text or is absent.
        """
        value = self.headers.get(header)
        if value is None:
            return None
        return (value or None) if type(value) is str else _as_text(value)


def header_text(headers: Mapping[str, object], header: str) -> str | None:
    """Return a header as text; None when it is absent or empty."""
    return _as_text(headers.get(header))


def _as_text(value: object) -> str | None:
    """Return what a header says. Python's own writing of a list or of bytes is what nobody has sent."""
    match value:
        case None | "" | list() | tuple() | dict():
            return None
        case bytes():
            try:
                return value.decode() or None
            except UnicodeDecodeError:
                return None
        case _:
            return str(value)


def _keep_all(_header: str) -> bool:
    return False


SETTABLE_TEXTS = frozenset(
    {"content_type", "content_encoding", "correlation_id", "reply_to", "message_id", "type"}
    | {"app_id"}
)
"""The text fields that an edit may set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """A change of raw properties that leaves everything it does not name byte-identical.

    `set_fields` takes `delivery_mode`, `priority` and `timestamp` as numbers, and the fields of
    SETTABLE_TEXTS; field names are AMQP's, in lower case with underscores. A header that is set replaces all
    headers of that name. Codecs cache the answers of `drop_headers`: it must give the same one for
    a name each time.
    """

    drop_headers: Callable[[str], bool] = _keep_all
    set_headers: Mapping[str, str | int] = field(default_factory=dict)
    drop_fields: frozenset[str] = frozenset()
    set_fields: Mapping[str, int | str] = field(default_factory=dict)


class PropertyCodec(Protocol):
    """Reads and edits the raw properties of one transport's messages."""

    empty: bytes
    """The properties of a message that has none."""
    of_rabbitmq: bool
    """Whether headers that RabbitMQ writes or acts on (CC, counters) may mean that here, too."""
    surely_fits: int | None
    """Bytes of properties up to which the broker takes a message; None if any that it ever held."""

    def read(self, raw: bytes) -> Properties:
        """Decode for reading. Raises UnreadableProperties."""
        ...

    def read_what_can_be(self, raw: bytes) -> tuple[Properties, str | None]:
        """Decode as much as can be, for people; return it with why the rest cannot. Never raises."""
        ...

    def read_with_canonical(self, raw: bytes) -> tuple[Properties, bytes]:
        """Return the results of `read` and `canonical`, for little more than the cost of one."""
        ...

    def read_fields(self, raw: bytes, wanted: frozenset[str]) -> Mapping[str, str | int]:
        """Decode these fields only, those that are there. Raises UnreadableProperties."""
        ...

    def read_headers(self, raw: bytes, wanted: frozenset[str]) -> Mapping[str, object]:
        """Decode these headers only, those that are there. Raises UnreadableProperties."""
        ...

    def edit(self, raw: bytes, edit: Edit) -> bytes:
        """Return the properties with the edit applied. Raises UnreadableProperties, NotOfItsType."""
        ...

    def why_too_large(self, raw: bytes, body: bytes) -> str | None:
        """Say why the broker would not take a message of this size, as it is sent back; else None."""
        ...

    def canonical(self, raw: bytes) -> bytes:
        """Return bytes equal for every delivery of one message. Raises UnreadableProperties.

        A broker may count deliveries in a header, and it rewrites the header table to do so.
        """
        ...


_GZIP, _ZLIB, _RAW = 31, 15, -15
PACKED: Mapping[str, tuple[int, ...]] = {
    "gzip": (_GZIP,),
    "x-gzip": (_GZIP,),
    "deflate": (_ZLIB, _RAW),
}
"""How zlib reads each encoding; `deflate` is written with and without its frame."""
MOST_UNPACKED = 1024 * 1024
"""Bytes that are unpacked at most: a few bytes may stand for gigabytes."""
_NAMES = frozenset({"content-encoding", "content_encoding"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpacked:
    """A body for people: what came out of it, or the body as it came where nothing does.

    `note` says how it was packed, or why it is as it came. `is_all` is false where it was cut.
    """

    content: bytes
    note: str
    is_unpacked: bool = True
    is_all: bool = True


def packed_as(properties: Mapping[str, object], headers: Mapping[str, object]) -> str:
    """Return the encoding that a sender names: `gzip`, or empty for none.

    Senders that know HTTP better than AMQP write a header, in whatever case; the property holds.
    """
    said = properties.get("content_encoding") or next(
        (value for name, value in headers.items() if name.lower() in _NAMES and value), ""
    )
    return str(said).strip().lower()


def unpack(content: bytes, size: int, packed: str) -> Unpacked:
    """Return what comes out of a body of this size, or of its beginning. Never raises."""
    if packed not in PACKED:
        note = "It is as it came: its sender does not say that it is gzip or deflate."
        return Unpacked(content=content, note=note, is_unpacked=False)
    why = ""
    for window in PACKED[packed]:
        reader = zlib.decompressobj(window)
        try:
            found = reader.decompress(content, MOST_UNPACKED)
        except zlib.error as error:
            why = why or str(error).partition(": ")[2] or str(error)
            continue
        if len(content) == size and not reader.eof and len(found) < MOST_UNPACKED:
            why = why or "its end is missing"
            continue
        much = f"{len(found):,} bytes" if reader.eof else f"more than {len(found):,} bytes"
        note = f"Unpacked from {packed}: {size:,} bytes as it came, {much} unpacked."
        return Unpacked(content=found, note=note, is_all=reader.eof)
    note = f"Its sender says that it is {packed}, but it cannot be unpacked: {why}."
    return Unpacked(content=content, note=note, is_unpacked=False)


MARK = "\ufeff"
"""The mark of the byte order; in UTF-8, too, it may stand at the beginning of a text."""

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    # UTF-32 comes first: its mark begins as that of UTF-16 does.
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_WIDE = (
    (re.compile(rb'[<{["]\0[^\0]\0'), "utf-16-le"),
    (re.compile(rb'\0[<{["]\0[^\0]'), "utf-16-be"),
)
"""How JSON and XML begin in UTF-16 without a mark."""

_LONGEST_DECLARATION = 200
_DECLARATION = re.compile(
    r"""\ufeff?<\?xml\s[^>]*?\sencoding\s*=\s*["']([A-Za-z][A-Za-z0-9._-]*)["']"""
)
_NAMED = re.compile(r"charset\s*=\s*[\"']?([A-Za-z0-9._-]+)", re.IGNORECASE)
_NO_CHARSETS = frozenset({"idna", "punycode", "unicode-escape", "raw-unicode-escape"})


def charset_of(content_type: str, content: bytes) -> str:
    """Return the charset of a body, unpacked: what its content type names, as RFC 7303 has it.

    Else what a mark of the byte order says, else what XML declares, else UTF-8. A charset that Python
    does not know is as if it had not been named. What is read may be the beginning of the body.
    """
    told = told_charset(content_type)
    if told is not None:
        return told
    for mark, charset in _MARKS:
        if content.startswith(mark):
            return charset
    for beginning, charset in _WIDE:
        if beginning.match(content):
            return charset
    declared = _declared(content[:_LONGEST_DECLARATION].decode("latin-1"))
    known = None if declared is None else _known(declared)
    # Whoever could read the declaration as ASCII knows that it does not tell of UTF-16.
    return known if known is not None and is_like_ascii(known) else "utf-8"


def told_charset(content_type: str) -> str | None:
    """Return the charset that a content type names; None if it names none that Python knows."""
    named = _NAMED.search(content_type)
    return None if named is None else _known(named[1])


def is_like_ascii(charset: str) -> bool:
    """Say whether ASCII is the same bytes in a charset."""
    return "<?xml".encode(charset) == b"<?xml"


def why_declared_wrongly(text: str, charset: str) -> str | None:
    """Say why XML that is written in this charset, and nowhere told so, is none; None if it is."""
    declared = _declared(text[:_LONGEST_DECLARATION])
    if declared is None:
        return None
    meant, used = _known(declared), codecs.lookup(charset).name
    if meant is None:
        return f"no XML: it declares the charset {declared}, which is not known"
    name = codecs.lookup(meant).name
    # UTF-16 has two orders of bytes, and its mark tells which one.
    return (
        None
        if used in (name, f"{name}-le", f"{name}-be")
        else (f"no XML: it declares {declared}, and is written in {charset}")
    )


def _declared(text: str) -> str | None:
    found = _DECLARATION.match(text)
    return None if found is None else found[1]


@lru_cache(maxsize=256)
def _known(name: str) -> str | None:
    """Return the name of a charset if Python knows it as one of texts."""
    try:
        "".encode(name)
        b"".decode(name)
    except (LookupError, ValueError, TypeError):
        return None
    # Python calls these encodings, too, and means names of hosts and its own source.
    return None if name.lower().replace("_", "-") in _NO_CHARSETS else name
