"""The fields and headers of AMQP messages, decoded only when they are read."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Literal, TypeVar

from retrier.domain.wire import UnreadableProperties
from retrier.transport.rabbitmq.properties.table import (
    HEAD_SIZE,
    LENGTH,
    LONG_STRING,
    Span,
    decode_entries,
    entries_and_others,
    names,
    text,
)

Kind = Literal["text", "table", "octet", "time"]

FIELDS: Mapping[str, Kind] = {
    "content_type": "text",
    "content_encoding": "text",
    "headers": "table",
    "delivery_mode": "octet",
    "priority": "octet",
    "correlation_id": "text",
    "reply_to": "text",
    "expiration": "text",
    "message_id": "text",
    "timestamp": "time",
    "type": "text",
    "user_id": "text",
    "app_id": "text",
    "cluster_id": "text",
}
FLAGS: Mapping[str, int] = {name: 0x8000 >> place for place, name in enumerate(FIELDS)}
LENGTHS: Mapping[Kind, int] = {"text": 1, "table": LENGTH}
"""Bytes of the length that precedes a property of varying size."""
SIZES: Mapping[Kind, int] = {"text": 0, "table": 0, "octet": 1, "time": 8}
UNDEFINED_FLAGS = 0x0003
FLAGS_SIZE = 2
OCTETS = tuple(name for name, kind in FIELDS.items() if kind == "octet")


def find_fields(raw: bytes, wanted: frozenset[str]) -> dict[str, Span]:
    """Return start and end of each of these fields. Raises UnreadableProperties."""
    found = {}
    start = FLAGS_SIZE
    for name, size, length in _present_up_to(int.from_bytes(raw[:FLAGS_SIZE]), wanted):
        end = start + size + (int.from_bytes(raw[start : start + length]) if length else 0)
        if name in wanted:
            found[name] = start, end
        start = end
    if start > len(raw):
        raise UnreadableProperties(f"{start} bytes of properties expected, found {len(raw)}")
    return found


@lru_cache(maxsize=1024)
def _present_up_to(flags: int, wanted: frozenset[str]) -> tuple[tuple[str, int, int], ...]:
    """Return what `present` does, but only up to the last of the wanted fields."""
    names = [name for name, *_ in present(flags)]
    return present(flags)[: max((names.index(name) + 1 for name in wanted & {*names}), default=0)]


@lru_cache(maxsize=1024)
def present(flags: int) -> tuple[tuple[str, int, int], ...]:
    """Return for each property in the flags: name, least size, and size of its length, in bytes."""
    return tuple(
        (name, SIZES[kind] + LENGTHS.get(kind, 0), LENGTHS.get(kind, 0))
        for name, kind in FIELDS.items()
        if flags & FLAGS[name]
    )


Value_co = TypeVar("Value_co", covariant=True)


class _Late(Mapping[str, Value_co]):
    """A mapping that keeps its values as bytes and decodes each one when it is read."""

    __slots__ = ("_bytes",)

    def __init__(self, found: Mapping[str, bytes]) -> None:
        self._bytes = found

    @abstractmethod
    def __getitem__(self, name: str) -> Value_co: ...

    def __contains__(self, name: object) -> bool:
        return name in self._bytes

    def __iter__(self) -> Iterator[str]:
        return iter(self._bytes)

    def __len__(self) -> int:
        return len(self._bytes)


class AmqpFields(_Late[str | int]):
    """All fields except the headers."""

    __slots__ = ()

    def __getitem__(self, name: str) -> str | int:
        return decode_field(name, self._bytes[name])


class AmqpHeaders(_Late[object]):
    """The headers; long strings are decoded when read, all others are decoded already."""

    __slots__ = ("_others",)

    def __init__(self, found: Mapping[str, bytes], others: Mapping[str, object]) -> None:
        self._bytes = found
        self._others = others

    def __getitem__(self, name: str) -> object:
        if name not in self._bytes:
            raise KeyError(name)
        return self.get(name)

    def get(self, name: str, default: object = None) -> object:
        """Return a header. It runs for each ingested header, so a text takes no further call."""
        entry = self._bytes.get(name)
        if entry is None:
            return default
        value = entry[0] + 1
        if entry[value] != LONG_STRING:
            return self._others[name]
        return entry[value + HEAD_SIZE :].decode("utf-8", "backslashreplace")


def read_entries(table: bytes) -> tuple[AmqpHeaders, list[bytes]]:
    """Return the headers of a table, and its entries; the table comes without its length.

    Values other than long strings are decoded at once, as they may be unreadable. Raises
    UnreadableProperties.
    """
    found, others = entries_and_others(table)
    by_name = dict(zip(names(found), found, strict=True))
    return AmqpHeaders(by_name, decode_entries(others) if others else {}), found


def decode_field(name: str, part: bytes) -> str | int:
    """Decode a field other than the headers."""
    return text(part[1:]) if FIELDS[name] == "text" else int.from_bytes(part)
