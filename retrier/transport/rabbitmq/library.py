"""Changes to what Kombu and py-amqp do: raw messages, sockets, frames, heartbeats, closed channels.

py-amqp's parser raises on messages that a broker may hold (times in milliseconds, text that is
not UTF-8), and it writes other header types than it read. So properties are not parsed here.
Deliveries and confirms come once per message, so they bypass py-amqp's dispatch: their few
arguments are read directly.

py-amqp reads each frame with three socket calls and writes each message with one or two, which is
most of what a message costs. Here one call reads all that has arrived, and one writes a whole run
of messages (AMQP 0-9-1, 2.3.5 and 4.2.3).
"""

import select
import socket
import ssl
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from math import inf
from select import POLLIN, POLLOUT, poll
from time import monotonic

import amqp
from amqp import spec
from amqp.exceptions import UnexpectedFrame
from amqp.transport import SSLTransport, TCPTransport
from kombu.connection import Connection
from kombu.transport import pyamqp

from retrier.domain.values import dataclass
from retrier.domain.wire import Outgoing
from retrier.private_files import NOT_ASKED, is_encrypted
from retrier.transport.rabbitmq.address import Address
from retrier.transport.transports import Tls

ANSWER_TIMEOUT = 10.0
"""Seconds after which a queue that does not answer counts as silent."""
DELETION_TIMEOUT = 20.0
"""Seconds for a deletion: if a queue has no leader, the broker waits 5 s for one first."""


class Silence:
    """The silence of a queue, counted only while the broker itself is heard.

    A live broker sends something twice per heartbeat. A broker that is frozen or unreachable sends
    nothing: its connection will be lost, and the queue is not to blame. So the count restarts after
    each gap in what is received, also if this process was frozen and caused the gap.
    """

    def __init__(self, heartbeat: float, clock: Callable[[], float] = monotonic) -> None:
        """`heartbeat` is in seconds, and so is what `clock` returns."""
        self._heartbeat = heartbeat
        self._clock = clock
        self._heard = clock()
        self._since = self._heard

    def begin(self) -> None:
        """Start the count: an answer is due from now on."""
        self._since = self._clock()

    def hear(self) -> None:
        """Note that something was received from the broker."""
        now = self._clock()
        if now - self._heard > self._heartbeat:
            self._since = now
        self._heard = now

    @property
    def seconds(self) -> float:
        """For how long the answer has been due while the broker was heard; 0 if it is not heard."""
        now = self._clock()
        return now - self._since if now - self._heard <= self._heartbeat else 0.0


KEPT = 1.9
"""Heartbeats without a sign of life for which a connection is surely kept: RabbitMQ waits for two."""


class SignsOfLife:
    """What the broker has surely heard of us, and when.

    What it sent proves nothing: that may have lain in the socket while this process was frozen,
    many batches of it, ahead of the news that the connection was closed. What we send counts if it
    was sent while the connection was surely kept. After a gap only an answer does. So wherever a
    process is frozen, it finds the gap in what it sends next, or is not sure right away, and takes
    nothing for its own from then on.
    """

    def __init__(self, heartbeat: float, clock: Callable[[], float] = monotonic) -> None:
        """`heartbeat` is in seconds, 0 if there is none; `clock` returns seconds."""
        self._longest = KEPT * heartbeat or inf
        self._clock = clock
        self._last = clock()

    def sent(self, began: float) -> None:
        """Note that something was sent since `began`. Call it after that: the sending may last."""
        if self.suffice:
            self._last = began

    def answered(self, asked: float) -> None:
        """Note an answer: who answers had not given us up when it was asked."""
        self._last = max(self._last, asked)

    @property
    def suffice(self) -> bool:
        """Whether the broker surely keeps the connection, as far as our silence can end it."""
        return self._clock() - self._last <= self._longest


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


def read_deliver(arguments: bytes) -> tuple[int, bool, str]:
    """Return delivery tag, redelivered flag and key of a basic.deliver (AMQP 0-9-1, 1.8.3.9).

    The key is empty if the default exchange has routed it: then it only repeats the queue's name.
    """
    at = _ARGUMENTS_AT + 1 + arguments[_ARGUMENTS_AT]  # after the consumer tag
    tag, redelivered = _TAGGED.unpack_from(arguments, at)
    at += _TAGGED.size
    by_exchange = arguments[at]
    if not by_exchange:
        return tag, redelivered, ""
    at += 1 + by_exchange
    key = arguments[at + 1 : at + 1 + arguments[at]]
    return tag, redelivered, key.decode("utf-8", "surrogatepass")


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


CONNECT_TIMEOUT = 5.0
READ_TIMEOUT = 20.0
STALL = 250
"""Milliseconds the broker may take nothing before `stalled` is called."""
READ_SIZE = 1 << 18
UNACKNOWLEDGED_TIMEOUT = 30_000
"""Milliseconds the kernel waits for the peer's TCP acknowledgements; py-amqp's default is 1 s."""

SOCKET_SETTINGS = {socket.TCP_USER_TIMEOUT: UNACKNOWLEDGED_TIMEOUT}


def dial(
    address: Address, name: str, heartbeat: float, connect_timeout: float, **options: object
) -> amqp.Connection:
    """Open a py-amqp connection. Raises what py-amqp raises."""
    client = Connection(  # type: ignore[no-untyped-call]  # Kombu types half of itself
        hostname=address.host,
        port=address.port,
        userid=address.user,
        password=address.password,
        virtual_host=address.virtual_host,
        ssl=make_ssl_options(address.host, address.trust) if address.tls else False,
        transport=Transport,
        heartbeat=heartbeat,
        connect_timeout=connect_timeout,
        transport_options={
            "frame_handler": FrameHandler,
            "read_timeout": READ_TIMEOUT,
            "socket_settings": SOCKET_SETTINGS,
            "client_properties": {"connection_name": name},
            **_limits(address),
            **options,
        },
    )
    # Not `client.connect`: Kombu's own connection reconnects without our knowing.
    return client.transport.establish_connection()


def _limits(address: Address) -> Mapping[str, int]:
    given = {"frame_max": address.frame_max, "channel_max": address.channel_max}
    return {name: limit for name, limit in given.items() if limit is not None}


def make_ssl_options(host: str, tls: Tls) -> Mapping[str, object]:
    """Return py-amqp's options; without `ca` the machine's authorities are loaded."""
    if is_encrypted(key := tls.key or tls.certificate):
        # It may have been replaced since the start, and OpenSSL would ask for its password.
        raise ssl.SSLError(f"the key in {key} {NOT_ASKED}")
    files = {"ca_certs": tls.ca, "certfile": tls.certificate, "keyfile": tls.key}
    given = {name: file for name, file in files.items() if file}
    # With a host name py-amqp would check it, also without `verify`.
    trust = {"server_hostname": host} if tls.verify else {"cert_reqs": ssl.CERT_NONE}
    return {**given, **trust}


class Channel(amqp.Channel):  # type: ignore[misc]  # py-amqp has no types
    """A channel that stays closed.

    py-amqp reopens a channel that the broker closed: without confirms, without consumers, and with
    delivery tags from 1 again, so that an old tag would acknowledge a new message.
    """

    def _do_revive(self) -> None:
        self.is_open = False


class PollingTransport(TCPTransport):  # type: ignore[misc]  # py-amqp has no types
    """A socket that reads all that has arrived, and calls `stalled` when the broker takes nothing.

    During an alarm, or on a slow line, writing a large body would else block, and the processor
    would not notice the end of its lease.
    """

    stalled: Callable[[], None] | None = None

    def _setup_transport(self) -> None:
        super()._setup_transport()
        self._write = self._write_piecewise
        self._frames = FrameBuffer()

    def read_frame(self, *_: object) -> Frame:
        """Wait for a frame. Raises TimeoutError after the timeout py-amqp set on the socket."""
        while (frame := self._frames.take()) is None:
            if not self._take_in(0):
                raise TimeoutError  # READ_TIMEOUT (SO_RCVTIMEO) is over, or no wait was allowed
        return frame

    def next_frame(self, timeout: float) -> Frame | None:
        """Return the next frame; None if none is complete within `timeout`. Raises OSError."""
        frame = self._frames.take()
        if frame is None and self._is_readable(timeout):
            self._take_in(socket.MSG_DONTWAIT)
            frame = self._frames.take()
        return frame

    def _take_in(self, flags: int) -> bool:
        try:
            arrived = self.sock.recv(READ_SIZE, flags)
        except BlockingIOError:
            return False
        except OSError as error:
            self.connected = isinstance(error, TimeoutError) and error.errno is None
            raise
        if not arrived:
            self.connected = False
            raise ConnectionResetError("Server unexpectedly closed connection")
        self._frames.add(arrived)
        return True

    def _is_readable(self, timeout: float) -> bool:
        if not timeout:
            return True  # a read that finds nothing costs no more than a poll
        readable = poll()
        readable.register(self.sock, POLLIN)
        return bool(readable.poll(timeout * 1000))

    def _write_piecewise(self, content: bytes) -> None:
        left = memoryview(content)
        while left:
            try:
                left = left[self.sock.send(left, socket.MSG_DONTWAIT) :]
            except BlockingIOError:
                self._wait()

    def _wait(self) -> None:
        writable = poll()
        writable.register(self.sock, POLLOUT)
        if not writable.poll(STALL) and self.stalled is not None:
            self.stalled()


_ENDED: int = getattr(select, "POLLRDHUP", 0)
"""Only Linux tells it; elsewhere the end is seen behind what is unread, or by the heartbeats."""


def is_closed_by_peer(sock: socket.socket) -> bool:
    """Return whether the other side has closed it, also if there is more to read ahead of that."""
    looked_at = poll()
    looked_at.register(sock, _ENDED)
    return bool(looked_at.poll(0))


def read_frame(connection: amqp.Connection, timeout: float) -> bool:
    """Read one frame; False if none came within `timeout`. Raises what py-amqp raises."""
    line = connection.transport
    if not isinstance(line, PollingTransport):
        try:
            connection.blocking_read(timeout)
        except TimeoutError as error:
            if error.errno is not None:  # ETIMEDOUT: the kernel gave the connection up
                raise
            return False
        return True
    frame = line.next_frame(timeout)
    if frame is not None:
        connection.on_inbound_frame(frame)
    return frame is not None


def read_frames(connection: amqp.Connection, until: Callable[[], bool]) -> bool:
    """Read frames that have arrived, or `until` is true; return whether there were any.

    Raises what py-amqp raises.
    """
    arrived = False
    while not until() and read_frame(connection, 0):
        arrived = True
    return arrived


def hear_out(sock: socket.socket, last: bytes, seconds: float) -> None:
    """Read until the bytes `last` have come, for at most `seconds`. Raises OSError.

    Closing a socket with unread bytes resets the connection, and the broker loses what it has not
    read yet: our last acknowledgements (RFC 2525, 2.17). The limit is for a broker that is frozen
    or does not stop sending.
    """
    end, heard = monotonic() + seconds, b""
    while not heard.endswith(last) and (left := end - monotonic()) > 0:
        sock.settimeout(left)
        more = sock.recv(READ_SIZE)
        if not more:
            return
        heard = heard[-len(last) :] + more


class NoAnswer(TimeoutError):
    """The broker is heard, but does not answer the question."""


@dataclass(frozen=True, slots=True)
class PendingReply:
    """A question under way; `timeout` limits its silence, `tick` each read, both in seconds."""

    silence: Silence
    timeout: float
    tick: float


def read_version(connection: amqp.Connection) -> tuple[int, ...]:
    """Return the broker's version as numbers, such as (4, 0, 5)."""
    version = str(connection.server_properties.get("version"))
    return tuple(int(part) for part in version.split(".") if part.isdecimal())


class RawConnection(pyamqp.Connection):
    """A connection over a PollingTransport, or over py-amqp's own socket with TLS."""

    question: PendingReply | None = None
    """The question under way, if any; never set while connecting."""
    signs: SignsOfLife
    """What the broker has heard of us; not there before the heartbeat is agreed upon."""
    last_heartbeat_sent: float

    def _on_tune(self, channel_max: int, frame_max: int, heartbeat: int) -> None:
        """Take the lower limits, ours or the broker's: py-amqp takes the broker's. 0 is none."""
        channels = min(channel_max or self.channel_max, self.channel_max)
        frames = min(frame_max or self.frame_max, self.frame_max)
        super()._on_tune(channels, frames, heartbeat)
        self.signs = SignsOfLife(self.heartbeat)

    def heartbeat_tick(self, rate: int = 2) -> None:
        """Send a heartbeat if one is due, whatever else was sent. Raises what py-amqp raises.

        py-amqp counts from when it noticed that something was sent. After a standstill that is
        much later than it was sent, and so later than the broker heard of us.
        """
        now = monotonic()
        if self.heartbeat and now - self.last_heartbeat_sent > self.heartbeat / rate:
            self.last_heartbeat_sent = now
            self.send_heartbeat()
            self.signs.sent(now)
        self.prev_sent = self.bytes_sent
        super().heartbeat_tick(rate)

    def drain_events(self, timeout: float | None = None) -> None:
        """Read at least one frame; send heartbeats while waiting for an answer. Raises NoAnswer.

        py-amqp sends none while it waits. The broker would close the connection, and a silent
        queue could not be distinguished from a broker that is not there (decision 0018).
        """
        if self.question is None:
            super().drain_events(timeout)
            return
        while not read_frame(self, self.question.tick):
            self.heartbeat_tick(rate=2)
            if self.question.silence.seconds >= self.question.timeout:
                raise NoAnswer(f"nothing came for {self.question.timeout:g} s")
        self.question.silence.hear()

    def Transport(  # noqa: N802 - py-amqp's name
        self,
        host: str,
        connect_timeout: float,
        ssl: object,
        *timeouts: float | None,
        socket_settings: Mapping[int, int],
    ) -> TCPTransport | SSLTransport:
        """Make the socket's side of the connection."""
        kind = SSLTransport if ssl else PollingTransport
        read_timeout, write_timeout = timeouts
        return kind(
            host,
            connect_timeout=connect_timeout,
            ssl=ssl,
            read_timeout=read_timeout,
            write_timeout=write_timeout,
            socket_settings=socket_settings,
        )


class Transport(pyamqp.Transport):
    """Kombu's AMQP transport, with RawConnection as its connections."""

    Connection = RawConnection
