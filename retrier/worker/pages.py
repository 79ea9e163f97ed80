"""What a worker process serves over HTTP: whether it takes messages, and its metrics for Prometheus."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from retrier.errors import ConfigurationError
from retrier.worker.options import Metrics

HOST = "127.0.0.1"
LARGEST_PORT = 65535
BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800)
"""Seconds: handlers take a moment, or half an hour."""


@dataclass(frozen=True, slots=True)
class Page:
    """What is answered."""

    status: int
    content_type: str
    body: bytes


class PageServer:
    """Listens on `PORT` (of this machine only) or `HOST:PORT`; answers the same on every path."""

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


class HealthServer(PageServer):
    """200 while messages are taken, else 503 with the reason; the same on every path."""

    def __init__(self, address: str, why_not: Callable[[], str | None]) -> None:
        """Listen on `PORT` (of this machine only) or `HOST:PORT`. Raises ConfigurationError."""

        def answer() -> Page:
            why = why_not()
            said = {"status": "taking"} if why is None else {"status": "waiting", "why": why}
            status = 200 if why is None else 503
            return Page(status, "application/json", json.dumps(said).encode())

        super().__init__(address, "the health check", answer)


class Measures:
    """What has become of messages, and whether any are taken."""

    def __init__(self, is_taking: Callable[[], bool]) -> None:
        """Begin at 0. The library is loaded only by a worker that serves metrics."""
        from prometheus_client import (  # noqa: PLC0415
            CollectorRegistry,
            Counter,
            Gauge,
            Histogram,
        )

        self._registry: Any = CollectorRegistry()
        self._handled = Counter(
            "retrier_worker_messages",
            "Messages that this worker process is done with, by what became of them.",
            ["queue", "outcome"],
            registry=self._registry,
        )
        self._seconds = Histogram(
            "retrier_worker_handler_seconds",
            "How long handlers took, immediate retries included.",
            ["queue"],
            buckets=BUCKETS,
            registry=self._registry,
        )
        taking = Gauge(
            "retrier_worker_taking", "1 while messages are taken.", registry=self._registry
        )
        taking.set_function(lambda: float(is_taking()))

    def note(self, queue: str, outcome: str, seconds: float) -> None:
        """Count a message; `seconds` are 0 if its handler was not started."""
        self._handled.labels(queue, outcome).inc()
        if seconds:
            self._seconds.labels(queue).observe(seconds)

    def beside(self, metrics: Metrics | None) -> Metrics:
        """Return a function that counts, and calls the user's function as well."""
        if metrics is None:
            return self.note

        def both(queue: str, outcome: str, seconds: float) -> None:
            self.note(queue, outcome, seconds)
            metrics(queue, outcome, seconds)

        return both

    def serve(self, address: str) -> PageServer:
        """Serve them on `PORT` (of this machine only) or `HOST:PORT`. Raises ConfigurationError."""
        from prometheus_client import (  # noqa: PLC0415
            CONTENT_TYPE_LATEST,
            generate_latest,
        )

        def answer() -> Page:
            return Page(200, CONTENT_TYPE_LATEST, generate_latest(self._registry))

        return PageServer(address, "the metrics", answer)


def _parse(address: str, what: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if not (port.isascii() and port.isdigit() and int(port) <= LARGEST_PORT):
        raise ConfigurationError([f"the port of {what} is no port: {address!r}"])
    return host or HOST, int(port)
