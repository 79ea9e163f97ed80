"""Messages as raw bytes: what py-amqp would decode on the way in and encode again on the way out.

py-amqp's own parser raises on messages that a broker may well hold (times in milliseconds, text
that is not UTF-8) and writes other header types than it read. So properties are not parsed here.
"""

import struct
from collections.abc import Callable

import amqp
from amqp import spec
from amqp.exceptions import UnexpectedFrame

from retrier.transport.rabbitmq.frames import (
    BODY,
    HEADER,
    HEARTBEAT,
    METHOD,
    PROPERTIES_AT,
    Frame,
)

WITH_CONTENT = frozenset({spec.Basic.Return, spec.Basic.Deliver, spec.Basic.GetOk})

MethodSink = Callable[[int, tuple[int, int], bytes, "RawMessage | None"], None]


class RawMessage(amqp.Message):  # type: ignore[misc]  # py-amqp has no types
    """A message whose properties are the bytes they came as."""

    raw: bytes = b"\x00\x00"

    def inbound_header(self, buf: bytes, offset: int = 0) -> int:
        """Keep the properties as they are; only the size of the body is read."""
        _, self.body_size = struct.unpack_from(">HxxQ", buf, offset)
        self.raw = bytes(buf[offset + PROPERTIES_AT :])
        self.ready = not self.body_size
        return offset + PROPERTIES_AT

    def _serialize_properties(self) -> bytes:
        return self.raw


def raw_message(raw: bytes, body: bytes, **arguments: object) -> RawMessage:
    """Make a message of raw properties and body."""
    message = RawMessage(body, **arguments)
    message.raw = raw
    return message


class FrameHandler:
    """Puts frames together to methods and messages; what py-amqp calls a frame handler."""

    def __init__(self, connection: amqp.Connection, sink: MethodSink) -> None:
        self._connection = connection
        self._sink = sink
        self._partial: dict[int, RawMessage] = {}

    def __call__(self, frame: Frame) -> bool:
        """Take a frame; return whether it completed something."""
        kind, channel, content = frame
        self._connection.bytes_recv += 1
        if kind == HEARTBEAT:
            return False
        if kind == METHOD and channel not in self._partial:
            return self._method(channel, content)
        if kind in (HEADER, BODY) and channel in self._partial:
            return self._content(kind, channel, content)
        raise UnexpectedFrame(f"frame of type {kind} on channel {channel}")

    def _method(self, channel: int, content: bytes) -> bool:
        method = struct.unpack_from(">HH", content)
        if method in WITH_CONTENT:
            self._partial[channel] = raw_message(b"", b"", frame_method=method, frame_args=content)
            return False
        self._sink(channel, method, content, None)
        return True

    def _content(self, kind: int, channel: int, content: bytes) -> bool:
        message = self._partial[channel]
        if kind == HEADER:
            message.inbound_header(content)
        else:
            message.inbound_body(content)
        if message.ready:
            del self._partial[channel]
            self._sink(channel, message.frame_method, message.frame_args, message)
        return bool(message.ready)
