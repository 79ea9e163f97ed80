"""Writes the lines of events and libraries; lines about reverts once a minute per destination."""

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TextIO

import structlog
from structlog.typing import FilteringBoundLogger

from retrier.app.log.decisions import Decisions
from retrier.app.log.form import Form, finish
from retrier.app.log.lines import LINES, Line, make_line, put_into_words
from retrier.app.log.pace import Paced
from retrier.app.log.words import describe
from retrier.clock import Clock
from retrier.domain.retry_batch import Ejected
from retrier.events.event import Event
from retrier.events.processor import LeaseReleased, WindowRecorded
from retrier.events.service import ServiceStopped


@dataclass(frozen=True, slots=True)
class _Reverted:
    """How many messages of a destination were reverted, and the first of them as an example."""

    window: WindowRecorded
    item: Ejected
    count: int = 1

    def __add__(self, other: "_Reverted") -> "_Reverted":
        return replace(self, count=self.count + other.count)


class Reverts(Paced[str, _Reverted]):
    """Logs reverted messages per destination: the reason of each message is in the database."""

    def add(self, window: WindowRecorded) -> None:
        """Count the messages of one window that are recorded as reverted."""
        self._count((item.destination, _Reverted(window, item)) for item in window.result.reverted)

    def _describe(self, key: str, counted: _Reverted) -> Line:
        return make_line(
            "message.reverted",
            destination=key,
            count=counted.count,
            unique_message_id=counted.item.unique_message_id,
            batch_id=counted.window.batch_id,
            operation_id=counted.window.operation_id,
            reason=counted.item.reason,
        )


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
        self._decisions = Decisions(write, clock)

    def __call__(self, event: Event) -> None:
        """Write the lines of one event."""
        for line in describe(event):
            self._write(line)
        self._decisions.add(event)
        match event:
            case WindowRecorded():
                self._reverts.add(event)
            case LeaseReleased() | ServiceStopped():
                self._reverts.tell_all()
                self._decisions.tell_all()
            case _:
                pass
        self._reverts.tell_due()
        self._decisions.tell_due()


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
