"""A message as it goes over the wire: raw property bytes and body, never interpreted on the way."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol


class UnreadableProperties(ValueError):
    """The property bytes of a message cannot be decoded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A message that a queue delivered and that is not acknowledged yet.

    Only the consumer that made `tag` understands it.
    """

    tag: object
    queue: str
    raw: bytes
    body: bytes
    redelivered: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """A message to be published to a queue, through the default exchange."""

    queue: str
    raw: bytes
    body: bytes


@dataclass(frozen=True, slots=True)
class Confirmed:
    """The broker has taken the message over and did not return it."""


@dataclass(frozen=True, slots=True)
class Returned:
    """The broker returned the message: there is no queue of that name."""

    reason: str


@dataclass(frozen=True, slots=True)
class Refused:
    """The broker (by a negative acknowledgement) or the client library refused this message."""

    reason: str


@dataclass(frozen=True, slots=True)
class ChannelClosed:
    """Unsettled because the broker closed the channel: one message of the window is the cause."""

    reason: str


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

        It runs many times for each ingested message, and nearly every value is a text.
        """
        value = self.headers.get(header)
        return (value or None) if type(value) is str else _as_text(value)


def header_text(headers: Mapping[str, object], header: str) -> str | None:
    """Return a header as text; None when it is absent or empty."""
    return _as_text(headers.get(header))


def _as_text(value: object) -> str | None:
    return str(value) if value is not None and value != "" else None


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
        """Return the properties with the edit applied. Raises UnreadableProperties."""
        ...

    def canonical(self, raw: bytes) -> bytes:
        """Return bytes equal for every delivery of one message. Raises UnreadableProperties.

        A broker may count deliveries in a header, and it rewrites the header table to do so.
        """
        ...
