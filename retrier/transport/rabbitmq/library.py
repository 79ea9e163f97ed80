"""Changes to what Kombu and py-amqp do: sockets, frames, heartbeats, closed channels."""

import socket
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from select import POLLIN, POLLOUT, POLLRDHUP, poll
from time import monotonic

import amqp
from amqp.transport import SSLTransport, TCPTransport
from kombu.connection import Connection
from kombu.transport import pyamqp

from retrier.key_files import NOT_ASKED, is_encrypted
from retrier.transport.rabbitmq.address import Address
from retrier.transport.rabbitmq.raw_message import Frame, FrameBuffer, FrameHandler
from retrier.transport.rabbitmq.signs_of_life import SignsOfLife
from retrier.transport.rabbitmq.silence import Silence
from retrier.transport.transports import Tls

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


def is_closed_by_peer(sock: socket.socket) -> bool:
    """Return whether the other side has closed it, also if there is more to read ahead of that."""
    looked_at = poll()
    looked_at.register(sock, POLLRDHUP)
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
class Question:
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

    question: Question | None = None
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
