"""A connection of py-amqp that moves messages as raw bytes: what the fast rivals are made of.

Nothing of Retrier's is used here: what Retrier is compared with must not change with it.
"""

import socket
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from struct import unpack_from
from typing import Any
from urllib.parse import unquote, urlsplit

import amqp
from amqp import spec

METHOD, HEADER, BODY = 1, 2, 3
"""Kinds of frames."""
HEADER_SIZE = 12
"""Bytes of class, weight and body size ahead of the properties."""
PATIENCE = {socket.TCP_USER_TIMEOUT: 120_000}
"""Milliseconds: py-amqp's own second is too short for a broker that is flooded."""
WITH_CONTENT = frozenset({spec.Basic.Return, spec.Basic.Deliver, spec.Basic.GetOk})


class RawMessage(amqp.Message):  # type: ignore[misc]  # py-amqp has no types
    """A message whose properties are never decoded."""

    raw = b"\0\0"

    def inbound_header(self, buf: bytes, offset: int = 0) -> int:
        """Keep the properties as bytes; return where in the frame they begin."""
        self.body_size = unpack_from(">Q", buf, offset + 4)[0]
        self.raw = buf[offset + HEADER_SIZE :]
        self.ready = not self.body_size
        return offset + HEADER_SIZE

    def _serialize_properties(self) -> bytes:
        return self.raw


@dataclass(frozen=True, slots=True)
class Taken:
    """One message off a queue."""

    tag: int
    raw: bytes
    body: bytes


def connect(url: str, **options: Any) -> amqp.Connection:
    """Connect with py-amqp to the broker of this URL."""
    parts = urlsplit(url)
    connection = amqp.Connection(
        host=f"{parts.hostname or '127.0.0.1'}:{parts.port or 5672}",
        userid=unquote(parts.username or "guest"),
        password=unquote(parts.password or "guest"),
        virtual_host=unquote(parts.path[1:]) or "/",
        socket_settings=PATIENCE,
        **options,
    )
    connection.connect()
    return connection


def handle_frames(connection: amqp.Connection, sink: Callable[..., Any]) -> Callable[..., bool]:
    """Make a frame handler: py-amqp's own would decode the properties."""
    partial: dict[int, RawMessage] = {}

    def on_frame(frame: tuple[int, int, bytes]) -> bool:
        kind, channel, content = frame
        connection.bytes_recv += 1
        if kind == METHOD:
            method = unpack_from(">HH", content)
            if method not in WITH_CONTENT:
                sink(channel, method, content, None)
                return True
            partial[channel] = RawMessage(frame_method=method, frame_args=content)
        elif kind in (HEADER, BODY):
            message = partial[channel]
            (message.inbound_header if kind == HEADER else message.inbound_body)(content)
            if message.ready:
                sink(channel, message.frame_method, message.frame_args, message)
                return True
        return False

    return on_frame


class RawLine:
    """One connection with one channel, on which one can publish with confirms and consume."""

    def __init__(self, url: str) -> None:
        self.connection = connect(url, frame_handler=handle_frames)
        self.channel = self.connection.channel()
        self.channel.auto_decode = False
        self.inbox: deque[Taken] = deque()
        self.pending: OrderedDict[int, int] = OrderedDict()
        """What is published and not confirmed: its number, and the delivery it came from."""
        self._published = 0
        self._acked = 0
        self._latest = 0

    def confirm(self) -> None:
        """Let the broker confirm what is published from now on."""
        self.channel.events["basic_ack"].add(self._on_confirm)
        self.channel.events["basic_nack"].add(self._on_trouble)
        self.channel.events["basic_return"].add(self._on_trouble)
        self.channel.confirm_select()

    def consume(self, queue: str, prefetch: int) -> None:
        """Have the messages of a queue put into the inbox."""
        self.channel.basic_qos(0, prefetch, False)  # noqa: FBT003 - py-amqp's signature
        self.channel.basic_consume(queue, callback=self._on_delivery)

    def publish(self, queue: str, raw: bytes, body: bytes, tag: int = 0) -> None:
        """Write one message. Not `basic_publish`: that looks at the socket each time."""
        message = RawMessage(body)
        message.raw = raw
        self.channel.send_method(spec.Basic.Publish, "Bssbb", (0, "", queue, True, False), message)
        self._published += 1
        self.pending[self._published] = tag
        self._latest = tag

    def read(self) -> None:
        """Wait for one frame."""
        self.connection.blocking_read()

    def settle(self, most: int = 0) -> None:
        """Wait until at most so many messages are unconfirmed."""
        while len(self.pending) > most:
            self.read()

    def ack_confirmed(self, chunk: int) -> int:
        """Ack what is confirmed, if that is at least `chunk` more; return how much is acked."""
        oldest = next(iter(self.pending.values())) - 1 if self.pending else self._latest
        if oldest - self._acked >= chunk or (oldest > self._acked and not self.pending):
            self.ack(oldest)
        return self._acked

    def ack(self, tag: int) -> None:
        """Ack everything up to this delivery."""
        self.channel.basic_ack(tag, multiple=True)
        self._acked = tag

    def close(self) -> None:
        """Leave when the broker has read all that was written.

        A socket that is closed with something unread in it takes the last acks with it
        [seen on RabbitMQ 4.0: 67 of 200 messages were handed out to the next rival once more].
        """
        self.connection.close()

    def _on_delivery(self, message: RawMessage) -> None:
        tag = message.delivery_info["delivery_tag"]
        self.inbox.append(Taken(tag, message.raw, message.body or b""))

    def _on_confirm(self, tag: int, multiple: bool) -> None:  # noqa: FBT001 - py-amqp's signature
        if not multiple:
            del self.pending[tag]
            return
        while self.pending and next(iter(self.pending)) <= tag:
            self.pending.popitem(last=False)

    def _on_trouble(self, *told: object) -> None:
        raise RuntimeError(f"the broker does not take the messages: {told}")
