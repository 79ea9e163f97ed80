"""The arguments of a worker, and the environment for those that are not given."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from retrier.errors import ConfigurationError
from retrier.worker.breaker import Breaker

NAME = "CAF_WORKER_FRIENDLY_NAME"
CRASH_LIMIT = "CAF_WORKER_RETRY_LIMIT"
THREADS = "WORKER_CONCURRENCY"
TIMEOUT = "GATEWAY_TIMEOUT_MS"
STOP_TIMEOUT = "WORKER_STOP_TIMEOUT_MS"
HEALTH_PORT = "--health-port"
METRICS_PORT = "--metrics-port"

DEFAULT_CRASH_LIMIT = 10
DEFAULT_THREADS = 1
DEFAULT_STOP_TIMEOUT = 20.0
"""Seconds. Kubernetes kills after 30, systemd after 90."""

Metrics = Callable[[str, str, float], object]
Health = Callable[[], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a worker works by; see docs/worker.md."""

    url: Any
    """As it was given."""
    urls: tuple[str, ...]
    name: str | None
    error_queue: str
    output_queue: str | None
    immediate_retries: int
    crash_limit: int
    timeout: float | None
    timeout_limit: int
    stop_timeout: float
    threads: int
    prefetch: int
    health: Health | None
    transient_delay: float
    hold_streams: bool
    health_port: str | None
    metrics: Metrics | None
    seen: Any
    metrics_port: str | None = None
    breaker: Breaker | None = None

    def find_problems(self) -> Iterator[str]:
        """Yield what cannot be, each in a sentence."""
        if not self.urls or not all(self.urls):
            yield "a worker needs the URL of a broker"
        if not self.error_queue:
            yield "error_queue must name a queue"
        if self.error_queue == self.output_queue:
            yield "error_queue and output_queue are the same queue"
        yield from self._find_wrong_numbers()
        if self.breaker is not None:
            yield from self.breaker.find_problems()

    def _find_wrong_numbers(self) -> Iterator[str]:
        least = {
            "immediate_retries": 0,
            "crash_limit": 0,
            "timeout_limit": 0,
            "stop_timeout": 0,
            "threads": 1,
            "prefetch": self.threads,
        }
        for name, number in least.items():
            if getattr(self, name) < number:
                yield f"{name} must be at least {number}, not {getattr(self, name)}"
        for name in ("timeout", "transient_delay"):
            seconds = getattr(self, name)
            if seconds is not None and seconds <= 0:
                yield f"{name} must be more than 0 seconds, not {seconds:g}"


def read_options(
    given: Mapping[str, Any], environ: Mapping[str, str], argv: Sequence[str] = ()
) -> Options:
    """Return the options: what is given, else what the environment says, else the default.

    Raises ConfigurationError with every problem.
    """
    reader = _Reader(environ)
    url = given["url"]
    threads = reader.number(given["threads"], THREADS)
    threads = DEFAULT_THREADS if threads is None else threads
    stop_timeout = reader.seconds(given["stop_timeout"], STOP_TIMEOUT)
    limit = reader.number(given["crash_limit"], CRASH_LIMIT)
    limit = DEFAULT_CRASH_LIMIT if limit is None else limit
    options = Options(
        **{
            **given,
            "urls": (url,) if isinstance(url, str) else tuple(url),
            "name": given["name"] or environ.get(NAME) or None,
            "threads": threads,
            "prefetch": _find_prefetch(given["prefetch"], threads, hold=given["hold_streams"]),
            "crash_limit": limit,
            "timeout_limit": max(limit, 0)
            if given["timeout_limit"] is None
            else given["timeout_limit"],
            "timeout": reader.seconds(given["timeout"], TIMEOUT),
            "stop_timeout": DEFAULT_STOP_TIMEOUT if stop_timeout is None else stop_timeout,
            "health_port": _find_port(given["health_port"], HEALTH_PORT, argv),
            "metrics_port": _find_port(given["metrics_port"], METRICS_PORT, argv),
        }
    )
    problems = [*reader.problems, *options.find_problems()]
    if problems:
        raise ConfigurationError(problems)
    return options


def _find_prefetch(given: int | None, threads: int, *, hold: bool) -> int:
    """Return how many messages are in hand: with streams held, none that no thread handles.

    At a stop it would go back, and a quorum queue counts that (decision 0066).
    """
    if given is None:
        return threads
    return min(given, threads) if hold else given


class _Reader:
    """Reads numbers of the environment, and keeps what is none."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self.problems: list[str] = []

    def number(self, given: int | None, name: str) -> int | None:
        """Return what is given, else the number that the environment has under this name."""
        if given is not None:
            return given
        text = self._environ.get(name, "").strip()
        if not text:
            return None
        if text.isascii() and text.isdigit():
            return int(text)
        self.problems.append(f"{name} must be a whole number, not {text!r}")
        return None

    def seconds(self, given: float | None, name: str) -> float | None:
        """Return the seconds that are given, else those of the milliseconds in the environment."""
        if given is not None:
            return given
        milliseconds = self.number(None, name)
        return None if milliseconds is None else milliseconds / 1000


def _find_port(given: int | str | None, argument: str, argv: Sequence[str]) -> str | None:
    """Return `PORT` or `HOST:PORT`: as given, else what follows this argument of the program."""
    if given is not None:
        return str(given)
    for word, following in zip_longest(argv, argv[1:], fillvalue=""):
        name, equals, value = word.partition("=")
        if name == argument:
            return value if equals else following
    return None


def arguments_of_program() -> Sequence[str]:
    """Return the arguments with which the program was started that has the worker in it."""
    return sys.argv[1:]
