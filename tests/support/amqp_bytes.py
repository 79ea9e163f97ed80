"""A second AMQP 0-9-1 encoder, so that tests never check ours against itself."""

import struct

FIELDS = (
    "content_type",
    "content_encoding",
    "headers",
    "delivery_mode",
    "priority",
    "correlation_id",
    "reply_to",
    "expiration",
    "message_id",
    "timestamp",
    "type",
    "user_id",
    "app_id",
    "cluster_id",
)
NO_PROPERTIES = b"\x00\x00"


def properties(*, headers: list[bytes] | None = None, **fields: bytes | str | int) -> bytes:
    """Encode property flags and list; headers as `header` makes them."""
    present = {name: _field(name, value) for name, value in fields.items()}
    if headers is not None:
        present["headers"] = with_length(b"".join(headers))
    flags = sum(1 << (15 - FIELDS.index(name)) for name in present)
    return struct.pack(">H", flags) + b"".join(present[name] for name in FIELDS if name in present)


def header(name: str | bytes, value: bytes) -> bytes:
    """Encode one entry of a table."""
    return _short(name) + value


def string(content: str | bytes) -> bytes:
    """Encode a long string value."""
    return b"S" + with_length(content.encode() if isinstance(content, str) else content)


def table(*entries: bytes) -> bytes:
    """Encode a nested table value."""
    return b"F" + with_length(b"".join(entries))


def array(*values: bytes) -> bytes:
    """Encode an array value."""
    return b"A" + with_length(b"".join(values))


def byte_array(content: bytes) -> bytes:
    """Encode a byte array value."""
    return b"x" + with_length(content)


def decimal(places: int, digits: int) -> bytes:
    """Encode a decimal value: digits, so many of them behind the point."""
    return b"D" + struct.pack(">Bi", places, digits)


def time(seconds: int) -> bytes:
    """Encode a timestamp value."""
    return b"T" + struct.pack(">Q", seconds)


def long(number: int) -> bytes:
    """Encode a 64 bit integer as RabbitMQ's clients do."""
    return b"l" + struct.pack(">q", number)


def with_length(content: bytes) -> bytes:
    """Put the length of the content ahead of it."""
    return struct.pack(">I", len(content)) + content


def _field(name: str, value: bytes | str | int) -> bytes:
    if name == "timestamp":
        return struct.pack(">Q", value)
    return struct.pack("B", value) if isinstance(value, int) else _short(value)


def _short(content: bytes | str) -> bytes:
    encoded = content.encode() if isinstance(content, str) else content
    return struct.pack("B", len(encoded)) + encoded


def method_frame(channel: int, class_id: int, method_id: int, arguments: bytes = b"") -> bytes:
    """Encode a method frame, as a peer would send it."""
    content = struct.pack(">HH", class_id, method_id) + arguments
    return struct.pack(">BHI", 1, channel, len(content)) + content + b"\xce"


BLOCKED = method_frame(0, 10, 60, b"\x0alow memory")
UNBLOCKED = method_frame(0, 10, 61)
