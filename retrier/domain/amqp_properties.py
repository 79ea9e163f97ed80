"""The properties of an AMQP 0-9-1 message, read and edited as the bytes of the content header.

The bytes are those that follow class, weight and body size: sixteen flags, then the properties
whose flag is set, in the order of the flags (AMQP 0-9-1, 4.2.6.1).
"""

from collections.abc import Iterator, Mapping
from typing import Literal

from retrier.domain.amqp_table import LENGTH, decode_table, entries, take, text, text_entry
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
UNDEFINED_FLAGS = 0xFFFF & ~sum(FLAGS.values())
FLAGS_SIZE = 2
OCTETS = frozenset(name for name, kind in FIELDS.items() if kind == "octet")


class AmqpPropertyCodec:
    """Reads and edits the raw properties of AMQP 0-9-1 messages."""

    def read(self, raw: bytes) -> Properties:
        """Decode for reading. Raises UnreadableProperties."""
        parts = _split(raw)
        table = parts.pop("headers", b"")
        return Properties(
            headers=decode_table(table[LENGTH:]),
            fields={name: _decode(FIELDS[name], part) for name, part in parts.items()},
        )

    def edit(self, raw: bytes, edit: Edit) -> bytes:
        """Return the properties with the edit applied.

        Headers are compared by name and never decoded; those that are set are appended, as long
        strings in UTF-8. Raises UnreadableProperties; ValueError for a field that is no octet.
        """
        parts = {
            name: part for name, part in _split(raw).items() if name not in edit.drop_fields
        } | _octets(edit.set_fields)
        if "headers" in parts or edit.set_headers:
            parts["headers"] = _edit_table(parts.get("headers", b""), edit)
        return _join(parts)


def _split(raw: bytes) -> dict[str, bytes]:
    flags = int.from_bytes(take(raw, 0, FLAGS_SIZE))
    if flags & UNDEFINED_FLAGS:
        raise UnreadableProperties(f"property flags {flags:#06x} name more than AMQP defines")
    parts: dict[str, bytes] = {}
    offset = FLAGS_SIZE
    for name, flag in FLAGS.items():
        if flags & flag:
            parts[name] = take(raw, offset, _size(FIELDS[name], raw, offset))
            offset += len(parts[name])
    if offset != len(raw):
        raise UnreadableProperties(f"{len(raw) - offset} bytes behind the last property")
    return parts


def _join(parts: Mapping[str, bytes]) -> bytes:
    flags = sum(FLAGS[name] for name in parts)
    return flags.to_bytes(FLAGS_SIZE) + b"".join(parts[name] for name in FIELDS if name in parts)


def _size(kind: Kind, raw: bytes, offset: int) -> int:
    match kind:
        case "text":
            return 1 + take(raw, offset, 1)[0]
        case "table":
            return LENGTH + int.from_bytes(take(raw, offset, LENGTH))
        case "octet":
            return 1
        case "time":
            return 8


def _decode(kind: Kind, part: bytes) -> str | int:
    return text(part[1:]) if kind == "text" else int.from_bytes(part)


def _octets(fields: Mapping[str, int]) -> dict[str, bytes]:
    if not fields.keys() <= OCTETS:
        raise ValueError(f"cannot set {sorted(fields.keys() - OCTETS)}")
    return {name: bytes([value]) for name, value in fields.items()}


def _edit_table(table: bytes, edit: Edit) -> bytes:
    content = b"".join(_kept(table[LENGTH:], edit)) + b"".join(
        text_entry(name, value) for name, value in edit.set_headers.items()
    )
    return len(content).to_bytes(LENGTH) + content


def _kept(table: bytes, edit: Edit) -> Iterator[bytes]:
    return (
        entry.encoded
        for entry in entries(table)
        if entry.name not in edit.set_headers and not edit.drop_headers(entry.name)
    )
