"""Small HTTP servers of a worker: each answers the same on every path."""

from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from retrier.errors import ConfigurationError

HOST = "127.0.0.1"
LARGEST_PORT = 65535


@dataclass(frozen=True, slots=True)
class Page:
    """What is answered."""

    status: int
    content_type: str
    body: bytes


class PageServer:
    """Listens on `PORT` (of this machine only) or `HOST:PORT`."""

    def __init__(self, address: str, what: str, answer: Callable[[], Page]) -> None:
        """Begin to answer. `what` is served, for messages. Raises ConfigurationError."""
        host, port = _parse(address, what)

        class Answer(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                page = answer()
                self.send_response(page.status)
                self.send_header("Content-Type", page.content_type)
                self.send_header("Content-Length", str(len(page.body)))
                self.end_headers()
                self.wfile.write(page.body)

            def log_message(self, *_arguments: object) -> None:
                """Log nothing: it is asked every few seconds."""

        try:
            self._server = ThreadingHTTPServer((host, port), Answer)
        except OSError as error:
            raise ConfigurationError([f"{what} cannot listen on {address}: {error}"]) from error
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]
        Thread(target=self._server.serve_forever, name=what, daemon=True).start()

    def close(self) -> None:
        """Listen no more."""
        self._server.shutdown()
        self._server.server_close()


def _parse(address: str, what: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if not (port.isascii() and port.isdigit() and int(port) <= LARGEST_PORT):
        raise ConfigurationError([f"the port of {what} is no port: {address!r}"])
    return host or HOST, int(port)
