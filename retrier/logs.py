"""What Retrier says to its operator: every event with its level and its words, and how it is written.

Fields are names, ids, counts and reasons: never a body, a header's value or a secret.
"""

import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol, TextIO

import structlog
from structlog.typing import FilteringBoundLogger, Processor

_LONGEST_VALUE = 500


@dataclass(frozen=True, slots=True)
class Event:
    """How one event is told: its level and its sentence, with the fields it names in braces."""

    level: int
    sentence: str


def _info(sentence: str) -> Event:
    return Event(logging.INFO, sentence)


def _warning(sentence: str) -> Event:
    return Event(logging.WARNING, sentence)


def _error(sentence: str) -> Event:
    return Event(logging.ERROR, sentence)


EVENTS: Mapping[str, Event] = {
    "service.starting": _info("Retrier {version} starts as {instance}: {roles}"),
    "service.places": _info("Broker: {broker}; database: {database}"),
    "service.started": _info("Retrier is up"),
    "service.stopping": _info("Retrier stops: {reason}"),
    "service.stopped": _info("Retrier has stopped"),
    "database.unreachable": _error("The database cannot be reached: {reason}"),
    "database.reached": _info("The database is reached again"),
    "database.sessions_ended": _warning(
        "Sessions that a frozen or lost process had left with locks are ended: {count}"
    ),
    "broker.unreachable": _error("The broker cannot be reached: {reason}"),
    "broker.reached": _info("The broker is reached again"),
    "ingestion.started": _info("Takes failed messages off {queue}"),
    "ingestion.paused": _warning("Takes nothing off {queue} for now: {reason}"),
    "ingestion.resumed": _info("Takes failed messages off {queue} again"),
    "ingestion.failed_import": _warning(
        "A message on {queue} cannot be understood and is kept as a failed import: {reason}"
    ),
    "ingestion.own_copy": _warning(
        "A staged copy arrived on {queue} and is dropped: a policy of the broker sends it there"
    ),
    "ingestion.delivery_limit": _warning(
        "The queue {queue} may drop messages that are delivered too often: give it no delivery limit"
    ),
    "processor.waiting_for_lease": _info("Stands by: process {pid} on {host} is the processor"),
    "processor.lease_acquired": _info("Is the processor now, epoch {epoch}"),
    "processor.lease_lost": _warning("Is the processor no more: {reason}"),
    "processor.gave_way": _warning("Lets another instance be the processor: {reason}"),
    "processor.turn_failed": _error("A turn of the processor failed unexpectedly: {error}"),
    "processor.backing_off": _warning("The processor backs off: {reason}"),
    "processor.recovered": _info("The processor works again"),
    "batch.marked": _info("Batch {batch_id} is marked, messages: {size}"),
    "batch.adopted": _warning("Batch {batch_id} was left in Marking and is adopted"),
    "batch.staged": _info("Batch {batch_id} is staged, messages: {size}"),
    "batch.forwarding": _info("Batch {batch_id} is being forwarded"),
    "batch.forwarded": _info("Batch {batch_id} is forwarded"),
    "batch.moved": _warning("What was not forwarded moves to batch {batch_id}, messages: {size}"),
    "message.reverted": _warning("Message {message} is unresolved again: {reason}"),
    "message.ejected": _warning("Message {message} is taken out of its batch: {reason}"),
    "operation.completed": _info("Operation {operation_id} is complete"),
    "staging.unusable": _error("The staging queue cannot be used: {reason}"),
    "api.listening": _info("The API listens on {host} port {port}"),
    "tick.failed": _error("The recurring {tick} failed: {reason}"),
}


class Say(Protocol):
    """What tells an event; code asks for this, so that tests can listen."""

    def __call__(self, event: str, /, **fields: object) -> None:
        """Tell one event of the table."""
        ...


class Events:
    """Writes events to one stream: for people if it is a terminal, else one JSON object a line."""

    def __init__(self, stream: TextIO) -> None:
        self._logger: FilteringBoundLogger = structlog.wrap_logger(
            structlog.WriteLogger(stream),
            processors=[structlog.processors.add_log_level, *_finish(stream)],
            wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        )

    def say(self, event: str, /, **fields: object) -> None:
        """Tell one event of the table; `exc_info` adds a traceback. Raises KeyError on another."""
        level, sentence = EVENTS[event].level, put_into_words(event, fields)
        bound = self._logger.bind(**_show_all(fields), _name=event)
        # A log that cannot be written must not stop a retry half-way.
        with suppress(OSError, ValueError):
            bound.log(level, sentence)


def put_into_words(event: str, fields: Mapping[str, object]) -> str:
    """Return the sentence of an event; a field that is not given reads `?`. Raises KeyError."""
    return EVENTS[event].sentence.format_map(_Shown(_show_all(fields)))


def adopt_standard_logging(stream: TextIO, logger: logging.Logger) -> None:
    """Let a standard logger, the root for all libraries, write warnings in the same form."""
    formatter = structlog.stdlib.ProcessorFormatter(
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_finish(stream)],
        foreign_pre_chain=[structlog.stdlib.add_log_level, structlog.stdlib.add_logger_name],
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    logger.addHandler(handler)
    logger.setLevel(logging.WARNING)


class _Shown(dict[str, object]):
    """Fields for a sentence, forgiving: a missing one is no reason to fail at run time."""

    def __missing__(self, _field: str) -> str:
        return "?"


def _finish(stream: TextIO) -> list[Processor]:
    stamp = structlog.processors.TimeStamper(fmt="iso", utc=True)
    rename = structlog.processors.EventRenamer("message", "_name")
    if stream.isatty():
        return [stamp, rename, _console()]
    exception = structlog.processors.format_exc_info
    return [stamp, exception, rename, structlog.processors.JSONRenderer()]


def _console() -> Processor:
    plain = structlog.dev.plain_traceback  # the rich one shows local variables, bodies among them
    return structlog.dev.ConsoleRenderer(
        event_key="message", pad_event_to=0, exception_formatter=plain
    )


def _show_all(fields: Mapping[str, object]) -> dict[str, object]:
    return {name: value if name == "exc_info" else _show(value) for name, value in fields.items()}


def _show(value: object) -> object:
    if value is None or isinstance(value, bool | int | float):
        return value
    # Reasons come from brokers and messages: no line breaks, no control codes, no novels.
    text = "".join(c if c.isprintable() else " " for c in str(value)[: _LONGEST_VALUE + 1])
    return text if len(text) <= _LONGEST_VALUE else text[:_LONGEST_VALUE] + "..."
