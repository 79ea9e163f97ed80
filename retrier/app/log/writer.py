"""Writes the lines of events and libraries; lines about reverts once a minute per destination."""

import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock
from typing import TextIO

import structlog
from structlog.typing import FilteringBoundLogger

from retrier.app.log.form import Form, finish
from retrier.app.log.lines import LINES, Line, make_line, put_into_words
from retrier.app.log.words import describe
from retrier.clock import Clock
from retrier.domain.retry_batch import Ejected
from retrier.events.event import Event
from retrier.events.forwarding import WindowRecorded
from retrier.events.processor import LeaseReleased
from retrier.events.service import ServiceStopped

_EVERY = 60.0
"""Seconds between two lines about one destination."""


@dataclass(slots=True)
class _Notice:
    """What to log about one destination: the number of reverts, and one of them as an example."""

    logged_at: float | None = None
    count: int = 0
    sample: tuple[WindowRecorded, Ejected] | None = None


class Reverts:
    """Logs reverted messages per destination: the first at once, then their number once a minute.

    Repeated retries to a full queue must not fill the log; the reason of each message is in the
    database. A destination is forgotten after a minute without a revert.
    """

    def __init__(self, write: Callable[[Line], None], clock: Clock) -> None:
        self._write = write
        self._clock = clock
        self._lock = Lock()
        self._notices: dict[str, _Notice] = {}

    def add(self, window: WindowRecorded) -> None:
        """Count the messages of one window that are recorded as reverted."""
        with self._lock:
            for item in window.result.reverted:
                notice = self._notices.setdefault(item.destination, _Notice())
                notice.count += 1
                notice.sample = notice.sample or (window, item)

    def tell_due(self) -> None:
        """Log the destinations that were not logged for a minute."""
        now = self._clock.monotonic()
        self._log_those(lambda logged_at: logged_at is None or now - logged_at >= _EVERY)

    def tell_all(self) -> None:
        """Log all counts, due or not: this process will count no more."""
        self._log_those(lambda _logged_at: True)

    def _log_those(self, wanted: Callable[[float | None], bool]) -> None:
        # Locked: any thread that emits an event may be here.
        with self._lock:
            due = [name for name, each in self._notices.items() if wanted(each.logged_at)]
            lines = [line for name in due for line in self._end(name)]
        for line in lines:
            self._write(line)

    def _end(self, destination: str) -> Iterator[Line]:
        """Yield the line of a destination and restart its count; forget it if nothing is new."""
        notice = self._notices.pop(destination)
        if notice.sample is None:
            return
        window, item = notice.sample
        yield make_line(
            "message.reverted",
            destination=destination,
            count=notice.count,
            unique_message_id=item.unique_message_id,
            batch_id=window.batch_id,
            operation_id=window.operation_id,
            reason=item.reason,
        )
        self._notices[destination] = _Notice(logged_at=self._clock.monotonic())


class LineWriter:
    """Writes lines to one stream, in one form, from one level on."""

    def __init__(self, stream: TextIO, form: Form = "auto", level: int = logging.INFO) -> None:
        self._logger: FilteringBoundLogger = structlog.wrap_logger(
            structlog.WriteLogger(stream),
            processors=[structlog.processors.add_log_level, *finish(stream, form, level)],
            wrapper_class=structlog.make_filtering_bound_logger(level),
        )

    def write(self, line: Line) -> None:
        """Write one line."""
        error = {} if line.error is None else {"exc_info": line.error}
        bound = self._logger.bind(**line.fields, **error, _name=line.name)
        # A log that cannot be written (closed pipe, full disk) must not stop a retry half-way.
        with suppress(OSError, ValueError):
            bound.log(LINES[line.name].level, put_into_words(line))


class Log:
    """A subscriber to all events that writes those of use to an operator."""

    def __init__(self, write: Callable[[Line], None], clock: Clock) -> None:
        self._write = write
        self._reverts = Reverts(write, clock)

    def __call__(self, event: Event) -> None:
        """Write the lines of one event."""
        for line in describe(event):
            self._write(line)
        match event:
            case WindowRecorded():
                self._reverts.add(event)
            case LeaseReleased() | ServiceStopped():
                self._reverts.tell_all()
            case _:
                pass
        self._reverts.tell_due()


def adopt_standard_logging(
    stream: TextIO, logger: logging.Logger, form: Form = "auto", level: int = logging.WARNING
) -> None:
    """Let a standard logger (the root for all libraries) write its warnings in the same form."""
    formatter = structlog.stdlib.ProcessorFormatter(
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            *finish(stream, form, level),
        ],
        foreign_pre_chain=[structlog.stdlib.add_log_level, structlog.stdlib.add_logger_name],
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    logger.addHandler(handler)
    logger.setLevel(max(level, logging.WARNING))
