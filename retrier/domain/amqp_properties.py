"""The properties of an AMQP 0-9-1 message, read and edited as the bytes of the content header.

The bytes are those that follow class, weight and body size: sixteen flags, then the properties
whose flag is set, in the order of the flags (AMQP 0-9-1, 4.2.6.1). RabbitMQ ignores the last two
flags and passes them on, and so do we.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Literal

from retrier.domain.amqp_table import (
    LENGTH,
    decode_some,
    decode_table,
    entries,
    text,
    text_entry,
)
from retrier.domain.headers import BROKER_COUNTERS
from retrier.domain.wire import Edit, Properties, UnreadableProperties

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
OCTETS = frozenset(name for name, kind in FIELDS.items() if kind == "octet")


class AmqpPropertyCodec:
    """Reads and edits the raw properties of AMQP 0-9-1 messages."""

    empty = b"\0\0"
    """Flags without any field."""

    def read(self, raw: bytes) -> Properties:
        """Decode for reading. Raises UnreadableProperties."""
        _, parts = _split(raw)
        table = parts.pop("headers", b"")
        return Properties(
            headers=decode_table(table[LENGTH:]),
            fields={name: _decode(FIELDS[name], part) for name, part in parts.items()},
        )

    def read_fields(self, raw: bytes) -> Mapping[str, str | int]:
        """Decode all but the headers. Raises UnreadableProperties."""
        _, parts = _split(raw)
        parts.pop("headers", None)
        return {name: _decode(FIELDS[name], part) for name, part in parts.items()}

    def read_headers(self, raw: bytes, wanted: frozenset[str]) -> Mapping[str, object]:
        """Decode these headers only. Raises UnreadableProperties."""
        _, parts = _split(raw)
        return decode_some(parts.get("headers", b"")[LENGTH:], wanted)

    def edit(self, raw: bytes, edit: Edit) -> bytes:
        """Return the properties with the edit applied.

        Headers are compared by name and never decoded; those that are set are appended, as long
        strings in UTF-8. Raises UnreadableProperties; ValueError for what AMQP cannot hold.
        """
        undefined, found = _split(raw)
        parts = {name: part for name, part in found.items() if name not in edit.drop_fields}
        parts |= _octets(edit.set_fields)
        if "headers" in parts or edit.set_headers:
            parts["headers"] = _edit_table(parts.get("headers", b""), edit)
        return _join(undefined, parts)

    def canonical(self, raw: bytes) -> bytes:
        """Return the properties without the broker's counters and with headers in one order.

        A quorum queue that redelivers adds `x-delivery-count` and sorts the table by name, also
        one that the message did not have [seen on RabbitMQ 3.10].
        """
        undefined, parts = _split(raw)
        table = parts.pop("headers", b"")[LENGTH:]
        kept = sorted(
            (name, table[start:end])
            for name, start, _, end in entries(table)
            if name not in BROKER_COUNTERS
        )
        return _join(undefined, parts) + b"".join(entry for _, entry in kept)


def _split(raw: bytes) -> tuple[int, dict[str, bytes]]:
    if len(raw) < FLAGS_SIZE:
        raise UnreadableProperties("no property flags")
    flags = int.from_bytes(raw[:FLAGS_SIZE])
    parts: dict[str, bytes] = {}
    start = FLAGS_SIZE
    for name, size, length in _present(flags):
        # A length cut short makes the property end behind the last byte, which is refused below.
        end = start + size + (int.from_bytes(raw[start : start + length]) if length else 0)
        parts[name] = raw[start:end]
        start = end
    if start != len(raw):
        raise UnreadableProperties(f"{start} bytes of properties expected, found {len(raw)}")
    return flags & UNDEFINED_FLAGS, parts


@lru_cache(maxsize=1024)
def _present(flags: int) -> tuple[tuple[str, int, int], ...]:
    """Name the properties with these flags, each with its least size and that of its length."""
    return tuple(
        (name, SIZES[kind] + LENGTHS.get(kind, 0), LENGTHS.get(kind, 0))
        for name, kind in FIELDS.items()
        if flags & FLAGS[name]
    )


def _join(undefined: int, parts: Mapping[str, bytes]) -> bytes:
    flags = undefined | sum(FLAGS[name] for name in parts)
    return flags.to_bytes(FLAGS_SIZE) + b"".join(parts[name] for name in FIELDS if name in parts)


def _decode(kind: Kind, part: bytes) -> str | int:
    return text(part[1:]) if kind == "text" else int.from_bytes(part)


def _octets(fields: Mapping[str, int]) -> dict[str, bytes]:
    if not fields.keys() <= OCTETS:
        raise ValueError(f"cannot set {sorted(fields.keys() - OCTETS)}")
    return {name: bytes([value]) for name, value in fields.items()}


def _edit_table(table: bytes, edit: Edit) -> bytes:
    content = table[LENGTH:]
    set_headers, drop = edit.set_headers, edit.drop_headers
    kept = [
        content[start:end]
        for name, start, _, end in entries(content)
        if name not in set_headers and not drop(name)
    ]
    kept += [text_entry(name, value) for name, value in set_headers.items()]
    edited = b"".join(kept)
    return len(edited).to_bytes(LENGTH) + edited
