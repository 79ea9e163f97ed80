"""What Kombu and py-amqp do otherwise here than by themselves."""

import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from select import POLLIN, POLLOUT, poll
from time import monotonic

import amqp
from amqp.transport import SSLTransport, TCPTransport
from kombu.connection import Connection
from kombu.transport import pyamqp

from retrier.transport.rabbitmq.address import Address
from retrier.transport.rabbitmq.raw_message import Frame, FrameBuffer, FrameHandler
from retrier.transport.rabbitmq.silence import Silence

CONNECT_TIMEOUT = 5.0
ANSWER_TIMEOUT = 20.0
STALL = 250
"""Milliseconds."""
READ_SIZE = 1 << 18
UNACKNOWLEDGED_TIMEOUT = 30_000
"""Milliseconds the kernel waits for the peer to take what was written; py-amqp's own is 1 s."""

SOCKET_SETTINGS = {socket.TCP_USER_TIMEOUT: UNACKNOWLEDGED_TIMEOUT}


def dial(
    address: Address, name: str, heartbeat: float, patience: float, **options: object
) -> amqp.Connection:
    """Open a py-amqp connection. Raises whatever py-amqp raises."""
    client = Connection(  # type: ignore[no-untyped-call]  # Kombu types half of itself
        hostname=address.host,
        port=address.port,
        userid=address.user,
        password=address.password,
        virtual_host=address.virtual_host,
        ssl={"server_hostname": address.host} if address.tls else False,
        transport=Transport,
        heartbeat=heartbeat,
        connect_timeout=patience,
        transport_options={
            "frame_handler": FrameHandler,
            "read_timeout": ANSWER_TIMEOUT,
            "socket_settings": SOCKET_SETTINGS,
            "client_properties": {"connection_name": name},
            **options,
        },
    )
    # Not `client.connect`: Kombu's own connection dials again behind our back.
    return client.transport.establish_connection()


class Channel(amqp.Channel):  # type: ignore[misc]  # py-amqp has no types
    """A channel that stays closed.

    py-amqp opens a channel again that the broker closed: without confirms, without consumers, and
    with delivery tags that begin at 1, so that an old tag acknowledges a new message.
    """

    def _do_revive(self) -> None:
        self.is_open = False


class PatientTransport(TCPTransport):  # type: ignore[misc]  # py-amqp has no types
    """A socket that reads all that has arrived, and says when the broker takes nothing.

    A broker that blocks publishers, or a slow line, would else hold up a large body, and with it
    the lease of whoever publishes.
    """

    stalled: Callable[[], None] | None = None

    def _setup_transport(self) -> None:
        super()._setup_transport()
        self._write = self._write_patiently
        self._frames = FrameBuffer()

    def read_frame(self, *_: object) -> Frame:
        """Wait for a frame. Raises TimeoutError after what py-amqp has set on the socket."""
        while (frame := self._frames.take()) is None:
            if not self._take_in(0):
                raise TimeoutError  # of a socket that is set not to wait at all
        return frame

    def next_frame(self, timeout: float) -> Frame | None:
        """Return the next frame; None when none is complete in so many seconds. Raises OSError."""
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
            return True  # a read that finds nothing costs no more than asking
        readable = poll()
        readable.register(self.sock, POLLIN)
        return bool(readable.poll(timeout * 1000))

    def _write_patiently(self, content: bytes) -> None:
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


def read_frame(connection: amqp.Connection, timeout: float) -> bool:
    """Take in one frame; False when none came in so many seconds. Raises what py-amqp raises."""
    line = connection.transport
    if not isinstance(line, PatientTransport):
        try:
            connection.blocking_read(timeout)
        except TimeoutError as error:
            if error.errno is not None:  # ETIMEDOUT: the kernel's verdict, not our patience
                raise
            return False
        return True
    frame = line.next_frame(timeout)
    if frame is not None:
        connection.on_inbound_frame(frame)
    return frame is not None


def read_frames(connection: amqp.Connection, until: Callable[[], bool]) -> bool:
    """Take in what has arrived, or enough of it; return whether that was anything.

    Raises what py-amqp raises.
    """
    arrived = False
    while not until() and read_frame(connection, 0):
        arrived = True
    return arrived


def hear_out(sock: socket.socket, last: bytes, seconds: float) -> None:
    """Read until these bytes have come, or for so many seconds. Raises OSError.

    A socket closed with something unread resets the line, and the broker then forgets what it has
    not read of ours: the last acknowledgements (RFC 2525, 2.17). One that is frozen, or does not
    stop talking, must not hold up who leaves.
    """
    end, heard = monotonic() + seconds, b""
    while not heard.endswith(last) and (left := end - monotonic()) > 0:
        sock.settimeout(left)
        more = sock.recv(READ_SIZE)
        if not more:
            return
        heard = heard[-len(last) :] + more


class NoAnswer(TimeoutError):
    """The broker is heard, and does not answer what it was asked."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question under way: its silence, when that is too long, and how long one read may last."""

    silence: Silence
    patience: float
    tick: float


def read_version(connection: amqp.Connection) -> tuple[int, ...]:
    """Return the broker's version, as far as it is numbers."""
    version = str(connection.server_properties.get("version"))
    return tuple(int(part) for part in version.split(".") if part.isdecimal())


class RawConnection(pyamqp.Connection):
    """A connection over a patient socket; one with TLS has py-amqp's own."""

    question: Question | None = None
    """What is asked just now, once the connection is open."""

    def drain_events(self, timeout: float | None = None) -> None:
        """Take in one frame at least; keep alive while an answer is waited for. Raises NoAnswer.

        py-amqp sends no heartbeats while it waits: the broker would take us for dead, and what
        does not answer could not be told from a broker that is not there.
        """
        if self.question is None:
            super().drain_events(timeout)
            return
        while not read_frame(self, self.question.tick):
            self.heartbeat_tick(rate=2)
            if self.question.silence.seconds >= self.question.patience:
                raise NoAnswer(f"nothing came for {self.question.patience:g} s")
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
        kind = SSLTransport if ssl else PatientTransport
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
    """Kombu's AMQP transport, over our connections."""

    Connection = RawConnection
