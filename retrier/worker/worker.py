"""The worker: its handlers, its signals and its end, and what its process serves over HTTP."""

import json
import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import FrameType
from typing import Any, TypeVar

from retrier.clock import Clock, SystemClock
from retrier.errors import ConfigurationError
from retrier.transport.transports import Tls
from retrier.worker.breaker import Breaker
from retrier.worker.connections import find_transport
from retrier.worker.handlers import Handler, make_handler
from retrier.worker.log import LOG, Condition
from retrier.worker.loop import Loop
from retrier.worker.options import Health, Metrics, Options, arguments_of_program, read_options
from retrier.worker.running import Exits, StopOverdue, end_process

HOST = "127.0.0.1"
LARGEST_PORT = 65535
BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800)
"""Seconds: handlers take a moment, or half an hour."""


@dataclass(frozen=True, slots=True)
class HealthAnswer:
    """What is answered."""

    status: int
    content_type: str
    body: bytes


class PageServer:
    """Listens on `PORT` (of this machine only) or `HOST:PORT`; answers the same on every path."""

    def __init__(self, address: str, what: str, answer: Callable[[], HealthAnswer]) -> None:
        """Begin to answer. `what` is served, for messages. Raises ConfigurationError."""
        host, port = _parse_address(address, what)

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

        def answer() -> HealthAnswer:
            why = why_not()
            said = {"status": "taking"} if why is None else {"status": "waiting", "why": why}
            status = 200 if why is None else 503
            return HealthAnswer(status, "application/json", json.dumps(said).encode())

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

        def answer() -> HealthAnswer:
            return HealthAnswer(200, CONTENT_TYPE_LATEST, generate_latest(self._registry))

        return PageServer(address, "the metrics", answer)


def _parse_address(address: str, what: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if not (port.isascii() and port.isdigit() and int(port) <= LARGEST_PORT):
        raise ConfigurationError([f"the port of {what} is no port: {address!r}"])
    return host or HOST, int(port)


F = TypeVar("F", bound=Callable[..., Any])


class Worker:
    """A consumer of one queue or several; see docs/worker.md for every argument."""

    def __init__(  # noqa: PLR0913 - each is one thing that a user may want
        self,
        url: str | Sequence[str],
        name: str | None = None,
        error_queue: str = "error",
        output_queue: str | None = None,
        *,
        immediate_retries: int = 0,
        crash_limit: int | None = None,
        timeout: float | None = None,
        timeout_limit: int | None = None,
        stop_timeout: float | None = None,
        threads: int | None = None,
        prefetch: int | None = None,
        health: Health | None = None,
        transient_delay: float = 5,
        hold_streams: bool = False,
        seen: Any = None,
        health_port: int | str | None = None,
        metrics: Metrics | None = None,
        metrics_port: int | str | None = None,
        breaker: Breaker | None = None,
        tls: Tls | None = None,
        transport_options: Mapping[str, object] | None = None,
        clock: Clock | None = None,
        end: Callable[[str], object] = end_process,
    ) -> None:
        """Connect to nothing yet. Raises ConfigurationError."""
        given = {
            "url": url,
            "name": name,
            "error_queue": error_queue,
            "output_queue": output_queue,
            "immediate_retries": immediate_retries,
            "crash_limit": crash_limit,
            "timeout": timeout,
            "timeout_limit": timeout_limit,
            "stop_timeout": stop_timeout,
            "threads": threads,
            "prefetch": prefetch,
            "health": health,
            "transient_delay": transient_delay,
            "hold_streams": hold_streams,
            "seen": seen,
            "health_port": health_port,
            "metrics": metrics,
            "metrics_port": metrics_port,
            "breaker": breaker,
        }
        self.options = read_options(given, os.environ, arguments_of_program())
        self.condition = Condition()
        """Whether it takes messages, and if not, what it waits for."""
        self._handlers: dict[str, Handler] = {}
        self._tls = tls
        self._transport_options = transport_options
        self._clock = clock or SystemClock()
        self._end = end

    @property
    def healthy(self) -> bool:
        """Whether messages are taken at this moment."""
        return self.condition.why is None

    def handler(self, queue: str, model: Any = None) -> Callable[[F], F]:
        """Register a function or a class for a queue. Raises ConfigurationError.

        It is called with the body as bytes, or with what pydantic reads from it as `model`; and, if
        it needs a second argument, with the Message.
        """

        def register(call: F) -> F:
            if queue in self._handlers:
                raise ConfigurationError([f"the queue {queue!r} has a handler already"])
            if queue in {self.options.error_queue, self.options.output_queue}:
                raise ConfigurationError([f"{queue!r} is a queue to which the worker publishes"])
            self._handlers[queue] = make_handler(queue, call, model)
            return call

        return register

    def run(self, stop: threading.Event | None = None) -> None:
        """Work until SIGTERM or SIGINT, or until `stop` is set. Raises ConfigurationError.

        In another thread than the main one there are no signals, and `stop` is needed.
        """
        if not self._handlers:
            raise ConfigurationError(["the worker has no handler"])
        is_alone = stop is None and threading.current_thread() is threading.main_thread()
        stop = stop or threading.Event()
        name = self.options.name or ", ".join(each.name for each in self._handlers.values())
        transport = find_transport(self.options.urls, name, self._tls, self._transport_options)
        exits = Exits(crash=self._end, leave=_leave if is_alone else None)
        with ExitStack() as stack:
            options = self._serve_metrics(stack)
            if self.options.health_port is not None:
                server = HealthServer(self.options.health_port, lambda: self.condition.why)
                stack.callback(server.close)
            loop = Loop(options, self._handlers, transport, self.condition, self._clock, exits)
            stack.enter_context(_heeding_signals(stop, loop.hurry))
            try:
                loop.run(stop)
            except StopOverdue:
                LOG.warning("the broker took nothing more; what is unacknowledged comes again")

    def _serve_metrics(self, stack: ExitStack) -> Options:
        """Return the options to work by: with the metrics that are served, if any are."""
        address = self.options.metrics_port
        if address is None:
            return self.options
        measures = Measures(lambda: self.healthy)
        stack.callback(measures.serve(address).close)
        return replace(self.options, metrics=measures.beside(self.options.metrics))


_BEFORE: dict[signal.Signals, Any] = {}
"""What signals did before this process became a worker; empty while it is none."""


_MASKS = threading.local()


def _hold_signals() -> None:
    """Before a handler forks: an order to stop that comes early must not be lost in the child."""
    _MASKS.before = signal.pthread_sigmask(signal.SIG_BLOCK, set(_BEFORE))


def _let_signals_come() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _MASKS.before)


def _give_signals_back() -> None:
    """In the child: it is no worker, and ends when it is told to, like any other process."""
    for number, handler in _BEFORE.items():
        signal.signal(number, signal.SIG_DFL if handler is None else handler)
    _let_signals_come()


os.register_at_fork(
    before=_hold_signals,
    after_in_parent=_let_signals_come,
    after_in_child=_give_signals_back,
)


def _leave() -> None:
    """End the process well: a handler has not ended in time, and nothing else can end it."""
    LOG.warning("a handler took too long after the order to stop: the process ends without it")
    logging.shutdown()
    os._exit(0)


@contextmanager
def _heeding_signals(stop: threading.Event, hurry: Callable[[], object]) -> Iterator[None]:
    """Set `stop` at the first SIGTERM or SIGINT, hurry at the second, end the process at the third."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    hurried = threading.Event()

    def heed(_number: int, _frame: FrameType | None) -> None:
        if hurried.is_set():
            os._exit(0)
        if stop.is_set():
            hurried.set()
            hurry()
        stop.set()

    before = {number: signal.signal(number, heed) for number in (signal.SIGTERM, signal.SIGINT)}
    _BEFORE.update(before)
    try:
        yield
    finally:
        _BEFORE.clear()
        for number, handler in before.items():
            signal.signal(number, handler)
