"""Writes the lines of events, and those of libraries, to one stream in one form."""

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import TextIO

import structlog
from structlog.typing import FilteringBoundLogger

from retrier.app.log.form import Form, finish
from retrier.app.log.lines import LINES, Line, put_into_words
from retrier.app.log.reverts import Reverts
from retrier.app.log.words import describe
from retrier.clock import Clock
from retrier.events.event import Event
from retrier.events.forwarding import WindowRecorded
from retrier.events.processor import LeaseReleased
from retrier.events.service import ServiceStopped


class LineWriter:
    """Writes lines to one stream, in one form, from one level on."""

    def __init__(self, stream: TextIO, form: Form = "auto", level: int = logging.INFO) -> None:
        self._logger: FilteringBoundLogger = structlog.wrap_logger(
            structlog.WriteLogger(stream),
            processors=[structlog.processors.add_log_level, *finish(stream, form)],
            wrapper_class=structlog.make_filtering_bound_logger(level),
        )

    def write(self, line: Line) -> None:
        """Write one line."""
        error = {} if line.error is None else {"exc_info": line.error}
        bound = self._logger.bind(**line.fields, **error, _name=line.name)
        # A log that cannot be written must not stop a retry half-way.
        with suppress(OSError, ValueError):
            bound.log(LINES[line.name].level, put_into_words(line))


class Log:
    """Subscribes to all events, and writes what an operator should read of them."""

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
    """Let a standard logger, the root for all libraries, write warnings in the same form."""
    formatter = structlog.stdlib.ProcessorFormatter(
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            *finish(stream, form),
        ],
        foreign_pre_chain=[structlog.stdlib.add_log_level, structlog.stdlib.add_logger_name],
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    logger.addHandler(handler)
    logger.setLevel(max(level, logging.WARNING))
