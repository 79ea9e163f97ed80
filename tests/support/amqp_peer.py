"""A broker of a few hundred lines that takes messages, and ends connections in whatever way it is told.

It speaks AMQP 0-9-1 as RabbitMQ does to who publishes with confirms: a real one sends some of these
closes only when it is ill. Nothing is routed: all that is confirmed is in `stored`.
"""

import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from threading import Event, Lock, Thread
from typing import Self

from tests.support.amqp_bytes import BLOCKED, UNBLOCKED, method_frame, string, table

LOOPBACK = "127.0.0.1"
RESET = struct.pack("ii", 1, 0)
FRAME_MAX = 131_072
FRAME_ERROR = 501
METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
HEARTBEAT_FRAME = b"\x08\x00\x00\x00\x00\x00\x00\xce"
PUBLISH = (60, 40)
CONFIRM = (85, 10)
OPEN_CHANNEL = (20, 10)
DECLARE = (50, 10)
CONSUME = (60, 20)

_CAPABILITIES = table(
    *(
        struct.pack("B", len(name)) + name + b"t\x01"
        for name in (b"publisher_confirms", b"basic.nack", b"connection.blocked")
    )
)
_PROPERTIES = table(
    b"\x0ccapabilities" + _CAPABILITIES,
    b"\x07product" + string("a peer of the tests"),
    b"\x07version" + string("3.10.0"),
)[1:]
_START = b"\x00\x09" + _PROPERTIES + string("PLAIN AMQPLAIN")[1:] + string("en_US")[1:]
_ANSWERS = {
    (10, 11): (10, 30, struct.pack(">HIH", 2047, FRAME_MAX, 60)),
    (10, 40): (10, 41, b"\x00"),
    OPEN_CHANNEL: (20, 11, struct.pack(">I", 0)),
    (20, 40): (20, 41, b""),
    (60, 10): (60, 11, b""),
    CONFIRM: (85, 11, b""),
}
"""What is answered to a method, whatever its arguments are."""
_CLOSE, _CLOSE_OK = (10, 50), (10, 51)


class Line:
    """One connection of a client, served by a thread of its own."""

    def __init__(self, peer: "AmqpPeer", sock: socket.socket) -> None:
        self.peer = peer
        self.sock = sock
        self.silent = False
        """Whether it takes what comes, and answers nothing: half-open."""
        self.published: dict[int, int] = {}
        """How many messages came on each channel since it was opened."""

    def send(self, content: bytes) -> None:
        """Send something; a client that is gone does not matter."""
        with suppress(OSError):
            self.sock.sendall(content)

    def serve(self) -> None:
        """Answer until one of both ends it."""
        with suppress(OSError, EOFError):
            self._read(8)
            self.send(method_frame(0, 10, 10, _START))
            while self._serve_one():
                pass
        self.end()

    def end(self) -> None:
        """Close the socket in good order."""
        with suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()

    def _serve_one(self) -> bool:
        kind, channel, content = self._frame()
        if self.silent or kind in (HEADER, BODY):
            return True
        if kind == HEARTBEAT:
            self.send(HEARTBEAT_FRAME)
            return True
        class_id, method_id = struct.unpack_from(">HH", content)
        return self._answer(channel, (class_id, method_id), content)

    def _answer(self, channel: int, method: tuple[int, int], content: bytes) -> bool:
        if method == PUBLISH:
            self._take(channel, content)
        elif method == _CLOSE:
            self.send(method_frame(0, *_CLOSE_OK))
            return False
        elif method == _CLOSE_OK:
            return False
        elif method == CONFIRM and (fault := self.peer.take_fault("before")) is not None:
            fault(self, channel)
        else:
            self._reply(channel, method, content)
        return True

    def _reply(self, channel: int, method: tuple[int, int], content: bytes) -> None:
        if method == CONSUME:
            tag = _short_at(content, 7 + content[6])
            self.send(method_frame(channel, 60, 21, struct.pack("B", len(tag)) + tag))
        elif method == DECLARE:
            name = content[6 : 7 + content[6]]
            self.send(method_frame(channel, 50, 11, name + struct.pack(">II", 0, 0)))
        elif method in _ANSWERS:
            if method == OPEN_CHANNEL:
                self.published[channel] = 0
            self.send(method_frame(channel, *_ANSWERS[method]))

    def _take(self, channel: int, method: bytes) -> None:
        header = self._content(HEADER)
        if header is None:
            close_connection(FRAME_ERROR)(self, channel)
            return
        (size,) = struct.unpack_from(">Q", header, 4)
        body = b""
        while len(body) < size:
            body += self._content(BODY) or b""
        self.published[channel] = tag = self.published.get(channel, 0) + 1
        if (fault := self.peer.take_fault("during")) is not None:
            fault(self, channel)
            return
        self.peer.hold_up(self)
        queue = _short_at(method, 7 + method[6])  # after the exchange
        refusal = self.peer.refusals.get(queue.decode())
        if refusal is not None:
            refusal(self, channel, tag, queue, header)
            return
        if queue:  # no queue has an empty name: it is dropped, and confirmed
            self.peer.stored.append(body)
        self.send(method_frame(channel, 60, 80, struct.pack(">QB", tag, 0)))

    def _content(self, wanted: int) -> bytes | None:
        """Return the next frame of this kind; None if it is too long to be one."""
        while True:
            kind, _, content = self._frame()
            if kind == wanted:
                return content if len(content) <= FRAME_MAX - 8 else None

    def _frame(self) -> tuple[int, int, bytes]:
        kind, channel, size = struct.unpack(">BHI", self._read(7))
        return kind, channel, self._read(size + 1)[:-1]

    def _read(self, size: int) -> bytes:
        content = b""
        while len(content) < size:
            more = self.sock.recv(size - len(content))
            if not more:
                raise EOFError
            content += more
        return content


Fault = Callable[[Line, int], None]
"""What is done to a connection; the channel is the one that publishes."""
Refusal = Callable[[Line, int, int, bytes, bytes], None]


@dataclass(frozen=True, slots=True)
class _Due:
    moment: str
    fault: Fault


class AmqpPeer:
    """Listens on loopback. Faults happen once each; what comes afterwards is served."""

    def __init__(self) -> None:
        self._listener = socket.create_server((LOOPBACK, 0))
        self._lock = Lock()
        self._due: list[_Due] = []
        self._open = Event()
        self._open.set()
        self.lines: list[Line] = []
        self.stored: list[bytes] = []
        self.refusals: dict[str, Refusal] = {}
        """What is done about messages for a queue, for as long as it is here."""

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._listener.getsockname()[1])

    @property
    def url(self) -> str:
        """Its URL."""
        return f"amqp://guest:guest@{LOOPBACK}:{self.port}//"

    def before(self, fault: Fault) -> None:
        """Do this to the next connection that is to publish, when it asks for confirms."""
        self._due.append(_Due("before", fault))

    def during(self, fault: Fault) -> None:
        """Do this instead of confirming the next message."""
        self._due.append(_Due("during", fault))

    def between(self, fault: Fault) -> None:
        """Do this to every connection there is now."""
        for line in self.lines:
            if line.published:
                fault(line, max(line.published))

    def take_fault(self, moment: str) -> Fault | None:
        """Return what is to be done now, if something is."""
        with self._lock:
            found = next((due for due in self._due if due.moment == moment), None)
            if found is None:
                return None
            self._due.remove(found)
            return found.fault

    def block(self) -> None:
        """Take no message any more: an alarm, of which who publishes is told."""
        self._open.clear()

    def unblock(self) -> None:
        """Take messages again, also those that wait."""
        self._open.set()

    def hold_up(self, line: Line) -> None:
        """Wait for the end of the alarm, if there is one."""
        if self._open.is_set():
            return
        line.send(BLOCKED)
        while not self._open.wait(0.1):
            line.send(HEARTBEAT_FRAME)
        line.send(UNBLOCKED)

    def __enter__(self) -> Self:
        Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for line in self.lines:
            line.end()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                line = Line(self, self._listener.accept()[0])
                self.lines.append(line)
                Thread(target=line.serve, daemon=True).start()


def close_connection(code: int) -> Fault:
    """End the connection with this code."""

    def close(line: Line, _channel: int) -> None:
        line.silent = True
        line.send(connection_close(code))

    return close


def connection_close(code: int) -> bytes:
    """Return the frame with which a broker ends a connection."""
    return method_frame(0, *_CLOSE, _reason(code))


def close_channel(code: int) -> Fault:
    """End the channel with this code; the connection stays."""

    def close(line: Line, channel: int) -> None:
        line.send(method_frame(channel, 20, 40, _reason(code)))

    return close


def reset(line: Line, _channel: int) -> None:
    """Break the connection with a TCP reset."""
    with suppress(OSError):  # it has ended already
        line.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        line.sock.close()


def vanish(line: Line, _channel: int) -> None:
    """Let the connection be half-open: nothing is answered any more."""
    line.silent = True


def is_missing(line: Line, channel: int, tag: int, queue: bytes, header: bytes) -> None:
    """Return the message: there is no such queue."""
    about = struct.pack(">H", 312) + b"\x08NO_ROUTE\x00" + struct.pack("B", len(queue)) + queue
    empty = header[:4] + struct.pack(">Q", 0) + header[12:]
    line.send(method_frame(channel, 60, 50, about))
    line.send(struct.pack(">BHI", HEADER, channel, len(empty)) + empty + b"\xce")
    line.send(method_frame(channel, 60, 80, struct.pack(">QB", tag, 0)))


def is_full(line: Line, channel: int, tag: int, _queue: bytes, _header: bytes) -> None:
    """Refuse the message: there is no room."""
    line.send(method_frame(channel, 60, 120, struct.pack(">QB", tag, 0)))


def is_denied(line: Line, channel: int, _tag: int, _queue: bytes, _header: bytes) -> None:
    """Close the channel: the user may not publish."""
    close_channel(403)(line, channel)


def _reason(code: int) -> bytes:
    text = b"the peer of the tests says so"
    return struct.pack(">HB", code, len(text)) + text + struct.pack(">HH", 0, 0)


def _short_at(content: bytes, place: int) -> bytes:
    return content[place + 1 : place + 1 + content[place]]
