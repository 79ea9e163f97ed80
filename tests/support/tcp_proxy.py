"""Stands between a client and the broker: cuts the line, freezes it, or speaks for the broker."""

import socket
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from select import select
from threading import Event, Thread
from typing import Self
from urllib.parse import urlsplit, urlunsplit

CHUNK = 1 << 16
LOOK_AT_COMMANDS_EVERY = 0.01


class TcpProxy:
    """Passes bytes on, both ways, until told otherwise. One thread; commands take effect at once."""

    def __init__(self, url: str, port: int = 0) -> None:
        self._target = urlsplit(url)
        self._listener = socket.create_server(("127.0.0.1", port))
        self._pairs: dict[socket.socket, socket.socket] = {}
        self._clients: list[socket.socket] = []
        self._commands: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._stopped = False
        self._frozen = False
        self._holding = False
        self._left: int | None = None
        self.held = bytearray()
        """What clients wrote while it was held back."""
        self.accepted = 0
        """How many connections there have been."""
        self._thread = Thread(target=self._run, daemon=True)

    @property
    def url(self) -> str:
        """The broker's URL, by way of this proxy."""
        credentials, at, _ = self._target.netloc.rpartition("@")
        netloc = f"{credentials}{at}127.0.0.1:{self._listener.getsockname()[1]}"
        return urlunsplit(self._target._replace(netloc=netloc))

    def cut(self) -> None:
        """Break every connection; new ones are welcome, and not frozen."""
        self._command(self._close_all)

    def cut_after(self, size: int) -> None:
        """Break the connection when clients have written so many more bytes."""
        self._command(lambda: setattr(self, "_left", size))

    def freeze(self) -> None:
        """Pass nothing on any more, as if the broker's host had stopped."""
        self._command(lambda: setattr(self, "_frozen", True))

    def hold(self) -> None:
        """Keep what clients write from the broker, as a broker does that blocks publishers."""
        self._command(lambda: setattr(self, "_holding", True))

    def release(self) -> None:
        """Pass on what was held back."""
        self._command(self._flush)

    def say(self, content: bytes) -> None:
        """Send clients something in the broker's name; only while the broker is silent."""
        self._command(lambda: [client.sendall(content) for client in self._clients])

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._command(lambda: setattr(self, "_stopped", True))
        self._thread.join(5)
        self._listener.close()

    def _command(self, command: Callable[[], object]) -> None:
        done = Event()
        self._commands.put(lambda: (command(), done.set()))
        assert done.wait(5), "the proxy does not answer"

    def _run(self) -> None:
        while not self._stopped:
            while not self._commands.empty():
                self._commands.get()()
            watched = [self._listener, *([] if self._frozen else self._pairs)]
            for ready in select(watched, [], [], LOOK_AT_COMMANDS_EVERY)[0]:
                self._accept() if ready is self._listener else self._pass_on(ready)
        self._close_all()

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        broker = socket.create_connection((self._target.hostname, self._target.port or 5672))
        self._pairs |= {client: broker, broker: client}
        self._clients.append(client)
        self.accepted += 1

    def _pass_on(self, source: socket.socket) -> None:
        if source not in self._pairs:
            return
        try:
            content = source.recv(CHUNK)
            if source in self._clients:
                content = self._count_down(content)
            if self._holding and source in self._clients:
                self.held += content
            else:
                self._pairs[source].sendall(content)
        except OSError:
            content = b""
        if not content:
            self._close(source)

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
        self._pairs[self._clients[-1]].sendall(bytes(self.held))
        self.held.clear()

    def _close_all(self) -> None:
        self._frozen = False
        for each in list(self._pairs):
            self._close(each)

    def _close(self, one: socket.socket) -> None:
        other = self._pairs.pop(one, None)
        for each in (one, other):
            self._pairs.pop(each, None)
            if each in self._clients:
                self._clients.remove(each)
            if each is not None:
                with suppress(OSError):
                    each.close()
