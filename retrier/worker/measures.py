"""The metrics of one worker process, in Prometheus' text format: counts by outcome, and durations."""

from collections.abc import Callable
from typing import Any

from retrier.worker.options import Metrics
from retrier.worker.pages import Page, PageServer

BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800)
"""Seconds: handlers take a moment, or half an hour."""


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
