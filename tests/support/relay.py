"""Passes connections on until the line is severed: then packets vanish, and nobody is told."""

import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from threading import Event, Lock, Thread
from typing import Self

CHUNK = 1 << 16

Address = tuple[str, int]


class Relay:
    """Listens, and connects each client with what `dial` reaches.

    While the line is severed nothing is read and nothing is closed: what either side writes waits
    and arrives when the line is healed, as it does when packets are sent again. New connections
    are taken and get no answer.
    """

    def __init__(
        self, dial: Callable[[], socket.socket], listen: Address = ("127.0.0.1", 0)
    ) -> None:
        self._dial = dial
        self._listener = socket.create_server(listen)
        self._whole = Event()
        self._whole.set()
        self._lock = Lock()
        self._sockets: set[socket.socket] = set()
        self._closed = False

    @property
    def address(self) -> Address:
        """Where it listens."""
        host, port = self._listener.getsockname()[:2]
        return host, port

    def sever(self) -> None:
        """Let packets vanish, both ways."""
        self._whole.clear()

    def heal(self) -> None:
        """Pass everything on again, also what was written meanwhile."""
        self._whole.set()

    def __enter__(self) -> Self:
        Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed = True
        self._whole.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            _close(self._sockets)

    def _accept(self) -> None:
        with suppress(OSError):
            while not self._closed:
                client, _ = self._listener.accept()
                Thread(target=self._serve, args=[client], daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        self._whole.wait()
        try:
            server = self._dial()
        except OSError:
            client.close()
            return
        with self._lock:
            self._sockets |= {client, server}
            if self._closed:
                _close(self._sockets)
        back = Thread(target=self._pump, args=[server, client], daemon=True)
        back.start()
        self._pump(client, server)
        back.join()
        with self._lock:
            _close([client, server])
            self._sockets -= {client, server}

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while content := self._take(source):
                sink.sendall(content)
        # The end of one way is told to the other side, and ends the other way, too.
        for each in (sink, source):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _take(self, source: socket.socket) -> bytes:
        try:
            content = source.recv(CHUNK)
        except OSError:
            content = b""
        self._whole.wait()
        return content


def dial_to(address: Address) -> Callable[[], socket.socket]:
    """Return what connects to an address."""
    return lambda: socket.create_connection(address, timeout=None)


def _close(sockets: Iterable[socket.socket]) -> None:
    for each in sockets:
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
        each.close()
