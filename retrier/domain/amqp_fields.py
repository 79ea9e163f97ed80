"""The properties of an AMQP 0-9-1 message: which there are, and where they lie in the bytes."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Literal

from retrier.domain.amqp_table import LENGTH, Span
from retrier.domain.wire import UnreadableProperties

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
"""Both of them come right behind the headers."""
OCTET_FLAGS = sum(FLAGS[name] for name in OCTETS)
_HEADERS = frozenset({"headers"})


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


def table_of(raw: bytes) -> Span:
    """Return where the entries of the header table lie. Raises UnreadableProperties."""
    start, end = find_fields(raw, _HEADERS).get("headers", (0, 0))
    return start + LENGTH, end


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
