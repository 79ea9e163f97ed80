"""Frames, many at a time: what goes round py-amqp's slow parts.

py-amqp reads each frame with three calls of the socket and writes each message with one or two,
and that is most of what a message costs. Here a read takes what has arrived, and a whole run of
messages is written at once (AMQP 0-9-1, 2.3.5 and 4.2.3). What comes once per message, deliveries
and confirms, is read by its place.
"""

import struct
from collections.abc import Iterator

from amqp import spec
from amqp.exceptions import UnexpectedFrame

from retrier.domain.wire import Outgoing

Frame = tuple[int, int, bytes]

METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
OVERHEAD = 8
"""Bytes of a frame that are not content: type, channel and size, and the end."""
PROPERTIES_AT = 12
"""Bytes of class, weight and body size in a content header (AMQP 0-9-1, 4.2.6.1)."""
LONGEST_QUEUE_NAME = 255

_HEAD = struct.Struct(">BHI")
_PUBLISH = struct.Struct(">HHHBB")
_CONTENT = struct.Struct(">HHQ")
_BASIC = spec.Basic.Publish[0]
_MANDATORY = 1
_CONSUMER_TAG = 4
"""Where the arguments of a method begin."""
_TAGGED = struct.Struct(">Q?")
_END = 0xCE
_END_BYTE = bytes([_END])


class FrameBuffer:
    """Bytes as they came, handed out as whole frames."""

    def __init__(self) -> None:
        self._content = b""
        self._at = 0

    def add(self, arrived: bytes) -> None:
        """Take in what was read."""
        self._content = self._content[self._at :] + arrived
        self._at = 0

    def take(self) -> Frame | None:
        """Return the next frame if all of it is there. Raises UnexpectedFrame."""
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
    at = _CONSUMER_TAG + 1 + arguments[_CONSUMER_TAG]
    return _TAGGED.unpack_from(arguments, at)


def read_ack(arguments: bytes) -> tuple[int, bool]:
    """Return delivery tag and multiple flag of a basic.ack (AMQP 0-9-1, 1.8.3.13)."""
    return _TAGGED.unpack_from(arguments, _CONSUMER_TAG)


def encode_name(queue: str) -> bytes:
    """Return a queue's name as it is written; like py-amqp, lone surrogates pass."""
    return queue.encode("utf-8", "surrogatepass")


def why_unsendable(message: Outgoing, largest_properties: int) -> str | None:
    """Say why a message cannot be put into frames, or None when it can.

    The broker answers such a frame by closing the connection, which would put the whole window
    in doubt, and the next one, and so on.
    """
    if len(encode_name(message.queue)) > LONGEST_QUEUE_NAME:
        return f"the name of a queue has at most {LONGEST_QUEUE_NAME} bytes"
    if len(message.raw) > largest_properties:
        return f"{len(message.raw)} bytes of properties: one frame holds {largest_properties}"
    return None
