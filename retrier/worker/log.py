"""What a worker tells its log and its metrics: what it waits for, and what became of each message.

Each line has fields beside its text; never a body.
"""

import json
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from logging import INFO, WARNING
from threading import Lock
from typing import assert_never

from retrier.worker.copies import find_id
from retrier.worker.hand import Held
from retrier.worker.outcomes import Broken, Done, Ended, Postponed, SecondCopy

LOG = logging.getLogger("retrier.worker")

Metrics = Callable[[str, str, float], object]


class Condition:
    """Either the worker takes messages, or `why` says what it waits for."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._why: str | None = "it has not begun yet"
        self._said: str | None = None

    @property
    def why(self) -> str | None:
        """What is waited for; None while messages are taken."""
        with self._lock:
            return self._why

    def wait_for(self, why: str) -> None:
        """Note that nothing is taken because of this; say it if it was not said before."""
        with self._lock:
            is_new, self._said = why != self._said, why
            self._why = why
        if is_new:
            fields = {"event": "worker.waiting", "reason": why}
            LOG.warning("nothing is taken: %s", why, extra=fields)

    def take(self, queues: str) -> None:
        """Note that messages are taken."""
        if self._why is None and self._said is None:
            return  # read without the lock: this is asked for each message
        with self._lock:
            waited, self._why, self._said = self._why is not None, None, None
        if waited:
            LOG.info("messages are taken from %s", queues, extra={"event": "worker.taking"})


_EVENTS = {Done: "message.handled", Broken: "message.failed", Postponed: "message.postponed"}
_SECOND_COPY = "message.second_copy"


def report(
    metrics: Metrics | None,
    held: Held,
    ended: Ended,
    seconds: float,
    breaker: str | None = None,
) -> None:
    """Tell log and metrics what became of a message; never raises. `breaker` is its state."""
    level = INFO if isinstance(ended, Done) and not ended.by_own_account else WARNING
    # Most applications do not log at INFO: a line per success is not even made then.
    if LOG.isEnabledFor(level):
        LOG.log(
            level,
            "the message %s of %s %s",
            find_id(held.properties),
            held.delivery.queue,
            _describe(ended, seconds),
            extra=_fields(held, ended, seconds) | ({} if breaker is None else {"breaker": breaker}),
        )
    if isinstance(ended, Done) and ended.untold is not None:
        name = find_id(held.properties)
        fields = {"event": "message.result_not_told", "message_id": name}
        LOG.error(
            "the result of the message %s cannot be told: %s", name, ended.untold, extra=fields
        )
    if metrics is None:
        return
    try:
        metrics(held.delivery.queue, name_outcome(ended), seconds)
    except Exception:
        LOG.exception("the metrics function raised")


def _fields(held: Held, ended: Ended, seconds: float) -> dict[str, object]:
    """Return what the line is made of, for whoever formats lines by fields."""
    told: dict[str, object] = {
        "event": _EVENTS.get(type(ended), _SECOND_COPY),
        "message_id": find_id(held.properties),
        "queue": held.delivery.queue,
        "outcome": name_outcome(ended),
        "attempt": held.starts + 1,
        "duration_ms": round(seconds * 1000),
    }
    match ended:
        case Done(attempts=attempts):
            told["attempt"] = held.starts + attempts
        case Broken(problem, attempts):
            told |= {"attempt": attempts, "reason": problem.reason.value, "exception": problem.type}
        case Postponed(why):
            told["exception"] = why
        case SecondCopy():
            pass
        case _ as never:
            assert_never(never)
    return told


def name_outcome(ended: Ended) -> str:
    """Return the word for the metrics function."""
    match ended:
        case Done():
            return "failure" if ended.by_own_account else "success"
        case Broken(problem):
            return problem.reason.value
        case Postponed():
            return "transient"
        case SecondCopy():
            return "second_copy"
        case _ as never:
            assert_never(never)


def _describe(ended: Ended, seconds: float) -> str:
    match ended:
        case Broken(problem):
            return f"goes to the error queue ({problem.reason}): {problem.type}"
        case Postponed(why):
            return f"has to wait, something is away: {why}"
        case SecondCopy():
            return "is the second copy of its retry, and is not handled again"
        case Done():
            said = "failed by its own account" if ended.by_own_account else "was handled"
            return f"{said} in {seconds:.3f} s"
        case _ as never:
            assert_never(never)


_OF_EVERY_RECORD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonLines(logging.Formatter):
    """A formatter: time, level, logger and message, and the fields that came with the line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line. What JSON has not is written as text."""
        told = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **{name: each for name, each in vars(record).items() if name not in _OF_EVERY_RECORD},
        }
        if record.exc_info:
            told["exception_trace"] = self.formatException(record.exc_info)
        try:
            return json.dumps(told, default=str, allow_nan=False)
        except ValueError:  # a number that JSON has not, in a field of somebody else's
            return json.dumps({name: str(value) for name, value in told.items()})
