"""Stands between a client and a server: cuts the line, freezes, delays or slows it, speaks for it."""

import socket
import struct
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from select import select
from threading import Event, Thread
from time import monotonic
from typing import Self
from urllib.parse import urlsplit, urlunsplit

CHUNK = 1 << 16
LOOPBACK = "127.0.0.1"
PORTS = {"amqp": 5672, "postgresql": 5432}
"""Where a server is if its URL does not say; by the scheme, less the driver."""
LOOK_AT_COMMANDS_EVERY = 0.01
DEADLINE = 30
"""Seconds within which its thread does what it is told, on the slowest machine."""
RESET = struct.pack("ii", 1, 0)
"""No lingering: closing says with a reset that it knows nothing of the connection."""


class TcpProxy:
    """Passes bytes on, both ways, until told otherwise. One thread; commands take effect at once.

    Who does not read holds up nobody but the one who writes to him: nothing else waits for it.
    """

    def __init__(
        self,
        url: str,
        port: int = 0,
        *,
        host: str = LOOPBACK,
        dial: Callable[[], socket.socket] | None = None,
    ) -> None:
        """Listen at host and port. `dial` reaches a server to which its URL does not lead from here."""
        self._target = urlsplit(url)
        self._dial = dial or self._dial_target
        self._listener = socket.create_server((host, port))
        self._waiting: list[socket.socket] = []
        """Clients that came while it was frozen: the server has not heard of them."""
        self._pairs: dict[socket.socket, socket.socket] = {}
        self._clients: list[socket.socket] = []
        self._unsent: dict[socket.socket, bytes] = {}
        """What there was no room for, by whom it is for; never empty."""
        self._commands: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._stopped = False
        self._frozen = False
        self._holding = False
        self._left: int | None = None
        self._delay = 0.0
        self._late: deque[tuple[float, socket.socket, bytes]] = deque()
        self._rate: float | None = None
        self._resting: dict[socket.socket, float] = {}
        self._vanished: list[socket.socket] = []
        self.held = bytearray()
        """What clients wrote while it was held back."""
        self.accepted = 0
        """How many connections there have been."""
        self._thread = Thread(target=self._run, daemon=True)

    @property
    def url(self) -> str:
        """The server's URL, by way of this proxy."""
        credentials, at, _ = self._target.netloc.rpartition("@")
        host, port = self._listener.getsockname()
        netloc = f"{credentials}{at}{host}:{port}"
        return urlunsplit(self._target._replace(netloc=netloc))

    def cut(self) -> None:
        """Break every connection; new ones are welcome, and not frozen."""
        self._command(self._close_all)

    def cut_after(self, size: int) -> None:
        """Break the connection when clients have written so many more bytes."""
        self._command(lambda: setattr(self, "_left", size))

    def freeze(self) -> None:
        """Pass nothing on any more, as if all packets vanished; nobody is told.

        New connections are taken and get no answer.
        """
        self._command(lambda: setattr(self, "_frozen", True))

    def thaw(self) -> None:
        """Pass everything on again, also what was written meanwhile."""
        self._command(self._thaw)

    def delay(self, seconds: float) -> None:
        """Pass everything on so many seconds late, both ways; 0 ends that."""
        self._command(lambda: setattr(self, "_delay", seconds))

    def throttle(self, rate: float | None) -> None:
        """Pass on no more than so many bytes a second of what clients write; None ends that."""
        self._command(lambda: setattr(self, "_rate", rate))

    def half_open(self) -> None:
        """Let the server's ends of all connections be gone, without a word to the clients.

        New connections are welcome.
        """
        self._command(self._vanish)

    def reset_vanished(self) -> None:
        """Let clients of half-open connections hear that nobody knows of them any more."""
        self._command(self._close_vanished)

    def hold(self) -> None:
        """Keep what clients write from the broker, as a broker does that blocks publishers."""
        self._command(lambda: setattr(self, "_holding", True))

    def release(self) -> None:
        """Pass on what was held back."""
        self._command(self._flush)

    def stop_holding(self) -> None:
        """Pass on what comes from now on; what was held back is gone, with its connection."""
        self._command(self._drop_held)

    def say(self, content: bytes) -> None:
        """Send clients something in the broker's name; only while the broker is silent."""
        self._command(lambda: self._send_to_all(content))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._command(lambda: setattr(self, "_stopped", True))
        self._thread.join(DEADLINE)
        self._listener.close()

    def _command(self, command: Callable[[], object]) -> None:
        done = Event()

        def act() -> None:
            command()
            done.set()

        self._commands.put(act)
        assert done.wait(DEADLINE), "the proxy does not answer"

    def _send_to_all(self, content: bytes) -> None:
        for client in self._clients:
            self._send(client, content)

    def _run(self) -> None:
        while not self._stopped:
            while not self._commands.empty():
                self._commands.get()()
            sources, sinks = ([], []) if self._frozen else self._watched()
            readable, writable, _ = select(
                [self._listener, *sources], sinks, [], LOOK_AT_COMMANDS_EVERY
            )
            for sink in writable:
                self._go_on(sink)
            for source in readable:
                self._accept() if source is self._listener else self._pass_on(source)
        self._close_all()
        self._close_vanished()

    def _accept(self) -> None:
        try:
            client, _ = self._listener.accept()
        except OSError:  # it has given up
            return
        self.accepted += 1
        if self._frozen:
            self._waiting.append(client)
        else:
            self._connect(client)

    def _connect(self, client: socket.socket) -> None:
        try:
            server = self._dial()
        except OSError:
            client.close()
            return
        self._pairs |= {client: server, server: client}
        self._clients.append(client)

    def _dial_target(self) -> socket.socket:
        port = self._target.port or PORTS[self._target.scheme.partition("+")[0]]
        return socket.create_connection((self._target.hostname or LOOPBACK, port))

    def _thaw(self) -> None:
        self._frozen = False
        for client in self._waiting:
            self._connect(client)
        self._waiting.clear()

    def _pass_on(self, source: socket.socket) -> None:
        if source not in self._pairs:
            return
        try:
            content = source.recv(self._take_breath(source))
        except OSError:
            content = b""
        if self._delay:
            self._late.append((monotonic() + self._delay, source, content))
            self._resting[source] = monotonic() + (0 if content else self._delay)
        else:
            self._deliver(source, content)

    def _deliver(self, source: socket.socket, content: bytes) -> None:
        if source not in self._pairs:
            return
        if source in self._clients:
            content = self._count_down(content)
        try:
            if self._holding and source in self._clients:
                self.held += content
            else:
                self._send(self._pairs[source], content)
        except OSError:
            content = b""
        if not content:
            self._close(source)

    def _send(self, sink: socket.socket, content: bytes) -> None:
        """Write what there is room for, after what there was no room for before."""
        content = self._unsent.pop(sink, b"") + content
        with suppress(BlockingIOError):
            content = content[sink.send(content, socket.MSG_DONTWAIT) :]
        if content:
            self._unsent[sink] = content

    def _go_on(self, sink: socket.socket) -> None:
        try:
            self._send(sink, b"")
        except OSError:
            self._close(sink)

    def _pass_on_late(self) -> None:
        while self._late and (self._late[0][0] <= monotonic() or not self._delay):
            if self._pairs.get(self._late[0][1]) in self._unsent:
                return
            _, source, content = self._late.popleft()
            self._deliver(source, content)

    def _watched(self) -> tuple[list[socket.socket], list[socket.socket]]:
        """Return who may be read from, and who has to be written to."""
        self._pass_on_late()
        now = monotonic()
        awake = [each for each in self._pairs if self._resting.get(each, 0) <= now]
        return [each for each in awake if self._pairs[each] not in self._unsent], [*self._unsent]

    def _take_breath(self, source: socket.socket) -> int:
        """Return how much to read now; what is throttled rests afterwards for as long as it took."""
        if self._rate is None or source not in self._clients:
            return CHUNK
        self._resting[source] = monotonic() + 5 * LOOK_AT_COMMANDS_EVERY
        return max(1, int(self._rate * 5 * LOOK_AT_COMMANDS_EVERY))

    def _vanish(self) -> None:
        for client in self._clients:
            self._pairs.pop(client).close()
        self._vanished += self._clients
        self._pairs.clear()
        self._clients.clear()
        self._unsent.clear()

    def _close_vanished(self) -> None:
        for each in self._vanished:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            each.close()
        self._vanished.clear()

    def _count_down(self, content: bytes) -> bytes:
        if self._left is None:
            return content
        self._left -= len(content)
        if self._left > 0:
            return content
        self._left = None
        return b""

    def _flush(self) -> None:
        self._holding = False
        self._send(self._pairs[self._clients[-1]], bytes(self.held))
        self.held.clear()

    def _drop_held(self) -> None:
        self._holding = False
        self.held.clear()

    def _close_all(self) -> None:
        self._frozen = False
        for each in self._waiting:
            each.close()
        self._waiting.clear()
        for each in list(self._pairs):
            self._close(each)

    def _close(self, one: socket.socket) -> None:
        other = self._pairs.pop(one, None)
        self._resting.pop(one, None)
        for each in (one, other):
            if each is None:
                continue
            self._pairs.pop(each, None)
            self._unsent.pop(each, None)
            if each in self._clients:
                self._clients.remove(each)
            with suppress(OSError):
                each.close()
