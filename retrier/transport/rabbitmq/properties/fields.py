"""Properties of AMQP messages: which fields there are, decoded when somebody asks for one."""

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
"""Bytes of the length that goes ahead of a property of varying size."""
SIZES: Mapping[Kind, int] = {"text": 0, "table": 0, "octet": 1, "time": 8}
UNDEFINED_FLAGS = 0x0003
FLAGS_SIZE = 2
OCTETS = tuple(name for name, kind in FIELDS.items() if kind == "octet")


def find_fields(raw: bytes, wanted: frozenset[str]) -> dict[str, Span]:
    """Return where these fields lie. Raises UnreadableProperties."""
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
    """Name what is present up to the last of these fields."""
    names = [name for name, *_ in present(flags)]
    return present(flags)[: max((names.index(name) + 1 for name in wanted & {*names}), default=0)]


@lru_cache(maxsize=1024)
def present(flags: int) -> tuple[tuple[str, int, int], ...]:
    """Name the properties with these flags, each with its least size and that of its length."""
    return tuple(
        (name, SIZES[kind] + LENGTHS.get(kind, 0), LENGTHS.get(kind, 0))
        for name, kind in FIELDS.items()
        if flags & FLAGS[name]
    )


Value_co = TypeVar("Value_co", covariant=True)


class _Late(Mapping[str, Value_co]):
    """What is there under which name, as bytes."""

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
    """The fields but the headers."""

    __slots__ = ()

    def __getitem__(self, name: str) -> str | int:
        return decode_field(name, self._bytes[name])


class AmqpHeaders(_Late[object]):
    """The headers; only long strings are left to be decoded."""

    __slots__ = ("_others",)

    def __init__(self, found: Mapping[str, bytes], others: Mapping[str, object]) -> None:
        self._bytes = found
        self._others = others

    def __getitem__(self, name: str) -> object:
        if name not in self._bytes:
            raise KeyError(name)
        return self.get(name)

    def get(self, name: str, default: object = None) -> object:
        """Return a header. All of ingestion asks here, so nothing else is called for a text."""
        entry = self._bytes.get(name)
        if entry is None:
            return default
        value = entry[0] + 1
        if entry[value] != LONG_STRING:
            return self._others[name]
        return entry[value + HEAD_SIZE :].decode("utf-8", "backslashreplace")


def read_entries(table: bytes) -> tuple[AmqpHeaders, list[bytes]]:
    """Return the headers of a table given without its length, and its entries.

    What is no long string is decoded here: it may be unreadable. Raises UnreadableProperties.
    """
    found, others = entries_and_others(table)
    by_name = dict(zip(names(found), found, strict=True))
    return AmqpHeaders(by_name, decode_entries(others) if others else {}), found


def decode_field(name: str, part: bytes) -> str | int:
    """Decode a field that is no table."""
    return text(part[1:]) if FIELDS[name] == "text" else int.from_bytes(part)
