"""Messages as raw bytes: what py-amqp would decode on the way in and encode again on the way out.

py-amqp's own parser raises on messages that a broker may well hold (times in milliseconds, text
that is not UTF-8) and writes other header types than it read. So properties are not parsed here.
Deliveries and confirms come once per message and need not even pass py-amqp's dispatch:
what is told of them can be had directly.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass, field

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

Method = tuple[int, int]
MethodSink = Callable[[int, Method, bytes, "RawMessage | None"], None]
Taker = Callable[[bytes, bytes, bytes], None]
"""Takes a method's arguments, properties and body; both are empty where there is no content."""


class RawMessage(amqp.Message):  # type: ignore[misc]  # py-amqp has no types
    """A message whose properties are the bytes they came as."""

    raw: bytes = b"\x00\x00"

    def _serialize_properties(self) -> bytes:
        return self.raw


@dataclass(slots=True)
class Incoming:
    """A method that brings content, while its content arrives."""

    method: Method
    arguments: bytes
    raw: bytes = b""
    left: int | None = None
    parts: list[bytes] = field(default_factory=list)

    def take(self, kind: int, content: bytes) -> bool:
        """Take the header, or more of the body; return whether that was all of it."""
        if kind == HEADER:
            (self.left,) = struct.unpack_from(">Q", content, PROPERTIES_AT - 8)
            self.raw = content[PROPERTIES_AT:]
        elif self.left is None:
            raise UnexpectedFrame("a body without a header")
        else:
            self.left -= len(content)
            self.parts.append(content)
        return not self.left

    @property
    def body(self) -> bytes:
        """All that has come of the body."""
        return self.parts[0] if len(self.parts) == 1 else b"".join(self.parts)


class FrameHandler:
    """Puts frames together to methods and messages; what py-amqp calls a frame handler."""

    def __init__(self, connection: amqp.Connection, sink: MethodSink) -> None:
        self._connection = connection
        self._sink = sink
        self._partial: dict[int, Incoming] = {}
        self._takers: dict[Method, Taker] = {}

    def give(self, method: Method, taker: Taker) -> None:
        """Give all methods of this kind to somebody, past py-amqp."""
        self._takers[method] = taker

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
            self._partial[channel] = Incoming(method, content)
            return False
        taker = self._takers.get(method)
        if taker is None:
            self._sink(channel, method, content, None)
        else:
            taker(content, b"", b"")
        return True

    def _content(self, kind: int, channel: int, content: bytes) -> bool:
        incoming = self._partial[channel]
        if not incoming.take(kind, content):
            return False
        del self._partial[channel]
        taker = self._takers.get(incoming.method)
        if taker is None:
            self._sink(channel, incoming.method, incoming.arguments, _message(incoming))
        else:
            taker(incoming.arguments, incoming.raw, incoming.body)
        return True


def _message(incoming: Incoming) -> RawMessage:
    message = RawMessage(incoming.body, frame_method=incoming.method, frame_args=incoming.arguments)
    message.raw = incoming.raw
    return message
