"""Messages as raw bytes, which py-amqp would decode when reading and encode again when writing.

py-amqp's parser raises on messages that a broker may hold (times in milliseconds, text that is
not UTF-8), and it writes other header types than it read. So properties are not parsed here.
Deliveries and confirms come once per message, so they bypass py-amqp's dispatch: their few
arguments are read directly.

py-amqp reads each frame with three socket calls and writes each message with one or two, which is
most of what a message costs. Here one call reads all that has arrived, and one writes a whole run
of messages (AMQP 0-9-1, 2.3.5 and 4.2.3).
"""

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import amqp
from amqp import spec
from amqp.exceptions import UnexpectedFrame

from retrier.domain.wire import Outgoing

Frame = tuple[int, int, bytes]

METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
OVERHEAD = 8
"""Bytes of a frame that are not content: type, channel, size, and the end byte."""
PROPERTIES_AT = 12
"""Bytes of class, weight and body size in a content header (AMQP 0-9-1, 4.2.6.1)."""
LONGEST_QUEUE_NAME = 255

_HEAD = struct.Struct(">BHI")
_PUBLISH = struct.Struct(">HHHBB")
_CONTENT = struct.Struct(">HHQ")
_BASIC = spec.Basic.Publish[0]
_MANDATORY = 1
_ARGUMENTS_AT = 4
"""Where the arguments of a method begin: after its class and method numbers."""
_TAGGED = struct.Struct(">Q?")
_END = 0xCE
_END_BYTE = bytes([_END])


class FrameBuffer:
    """Collects bytes as they arrive, and returns them as whole frames."""

    def __init__(self) -> None:
        self._content = b""
        self._at = 0

    def add(self, arrived: bytes) -> None:
        """Append bytes that were read."""
        self._content = self._content[self._at :] + arrived
        self._at = 0

    def take(self) -> Frame | None:
        """Return the next frame, or None until it is complete. Raises UnexpectedFrame."""
        start = self._at + _HEAD.size
        if start > len(self._content):
            return None
        kind, channel, size = _HEAD.unpack_from(self._content, self._at)
        end = start + size
        if end >= len(self._content):
            return None
        if self._content[end] != _END:
            raise UnexpectedFrame(f"a frame ends with {self._content[end]:#04x}")
        self._at = end + 1
        return kind, channel, self._content[start:end]


def write_frame(kind: int, channel: int, content: bytes) -> bytes:
    """Return the bytes of one frame."""
    return _HEAD.pack(kind, channel, len(content)) + content + _END_BYTE


def write_publish(
    channel: int, message: Outgoing, *, mandatory: bool, frame_max: int
) -> Iterator[bytes]:
    """Yield the frames that publish a message to the default exchange."""
    queue, body = encode_name(message.queue), message.body
    method = _PUBLISH.pack(*spec.Basic.Publish, 0, 0, len(queue))
    yield write_frame(METHOD, channel, method + queue + bytes([_MANDATORY * mandatory]))
    yield write_frame(HEADER, channel, _CONTENT.pack(_BASIC, 0, len(body)) + message.raw)
    largest = frame_max - OVERHEAD
    for start in range(0, len(body), largest):
        yield write_frame(BODY, channel, body[start : start + largest])


def read_deliver(arguments: bytes) -> tuple[int, bool]:
    """Return delivery tag and redelivered flag of a basic.deliver (AMQP 0-9-1, 1.8.3.9)."""
    at = _ARGUMENTS_AT + 1 + arguments[_ARGUMENTS_AT]  # after the consumer tag
    return _TAGGED.unpack_from(arguments, at)


def read_ack(arguments: bytes) -> tuple[int, bool]:
    """Return delivery tag and multiple flag of a basic.ack (AMQP 0-9-1, 1.8.3.13)."""
    return _TAGGED.unpack_from(arguments, _ARGUMENTS_AT)


def encode_name(queue: str) -> bytes:
    """Return the bytes of a queue's name; as in py-amqp, lone surrogates are allowed."""
    return queue.encode("utf-8", "surrogatepass")


def why_unsendable(message: Outgoing, largest_properties: int) -> str | None:
    """Return why a message cannot be put into frames, or None when it can.

    The broker closes the connection on such a frame. The whole window would be in doubt, and so
    would each later window with this message.
    """
    if len(encode_name(message.queue)) > LONGEST_QUEUE_NAME:
        return f"the name of a queue has at most {LONGEST_QUEUE_NAME} bytes"
    if len(message.raw) > largest_properties:
        size = f"{len(message.raw)} bytes of properties: one frame holds {largest_properties}"
        return f"{size}. A retry may go without headers that it names (--drop-header)"
    return None


WITH_CONTENT = frozenset({spec.Basic.Return, spec.Basic.Deliver, spec.Basic.GetOk})

Method = tuple[int, int]
MethodSink = Callable[[int, Method, bytes, "RawMessage | None"], None]
Taker = Callable[[bytes, bytes, bytes], None]
"""Takes a method's arguments, properties and body; both are empty where there is no content."""


class RawMessage(amqp.Message):  # type: ignore[misc]  # py-amqp has no types
    """A py-amqp message whose properties stay the bytes they came as."""

    raw: bytes = b"\x00\x00"

    def _serialize_properties(self) -> bytes:
        return self.raw


@dataclass(slots=True)
class Incoming:
    """A method with content, of which not all has arrived yet."""

    method: Method
    arguments: bytes
    raw: bytes = b""
    left: int | None = None
    parts: list[bytes] = field(default_factory=list)

    def take(self, kind: int, content: bytes) -> bool:
        """Add the header, or a part of the body; return whether the content is complete."""
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
        """The part of the body that has arrived."""
        return self.parts[0] if len(self.parts) == 1 else b"".join(self.parts)


class FrameHandler:
    """Assembles methods and messages from frames; takes the place of py-amqp's frame handler."""

    def __init__(self, connection: amqp.Connection, sink: MethodSink) -> None:
        self._connection = connection
        self._sink = sink
        self._partial: dict[int, Incoming] = {}
        self._takers: dict[Method, Taker] = {}

    def give(self, method: Method, taker: Taker) -> None:
        """Pass all methods of this kind to `taker` instead of py-amqp."""
        self._takers[method] = taker

    def __call__(self, frame: Frame) -> bool:
        """Handle a frame; return whether it completed a method. Raises UnexpectedFrame."""
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
