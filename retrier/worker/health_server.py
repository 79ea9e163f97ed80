"""Answers over HTTP whether a worker takes messages."""

import json
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from retrier.errors import ConfigurationError

HOST = "127.0.0.1"
LARGEST_PORT = 65535


class HealthServer:
    """200 while messages are taken, else 503 with the reason; the same on every path."""

    def __init__(self, address: str, why_not: Callable[[], str | None]) -> None:
        """Listen on `PORT` (of this machine only) or `HOST:PORT`. Raises ConfigurationError."""
        host, port = _parse(address)

        class Answer(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                why = why_not()
                said = {"status": "taking"} if why is None else {"status": "waiting", "why": why}
                body = json.dumps(said).encode()
                self.send_response(200 if why is None else 503)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_arguments: object) -> None:
                """Log nothing: it is asked every few seconds."""

        try:
            self._server = ThreadingHTTPServer((host, port), Answer)
        except OSError as error:
            raise ConfigurationError(
                [f"the health check cannot listen on {address}: {error}"]
            ) from error
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]
        Thread(target=self._server.serve_forever, name="health server", daemon=True).start()

    def close(self) -> None:
        """Listen no more."""
        self._server.shutdown()
        self._server.server_close()


def _parse(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if not (port.isascii() and port.isdigit() and int(port) <= LARGEST_PORT):
        raise ConfigurationError([f"the port of the health check is no port: {address!r}"])
    return host or HOST, int(port)
