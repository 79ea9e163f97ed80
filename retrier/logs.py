"""What Retrier says to its operator: every event with its level and its words.

Fields are names, ids, counts and reasons: never a body, a header's value or a secret. What is
about an operation, a batch or a message has `operation_id`, `batch_id`, `unique_message_id`.
"""

import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol, TextIO

import structlog
from structlog.typing import FilteringBoundLogger

from retrier.log_lines import Form, finish, show


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
    "service.part_failed": _error("The part {part} ended unexpectedly"),
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
        "What cannot be understood on {queue} is kept as failed imports, {count}: {reason}"
    ),
    "ingestion.own_copy": _warning(
        "Staged copies on {queue} are dropped, {count}: a policy of the broker sends them there"
    ),
    "ingestion.copy_of_another": _warning(
        "Staged copies of the installation {installation_id} on {queue} are dropped, {count}: "
        "a policy of the broker sends them there"
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
    "batch.moved": _warning(
        "What was not forwarded of batch {batch_id} moves to batch {new_batch_id}: {reason}"
    ),
    "batch.backing_off": _warning("Batch {batch_id} waits: {reason}"),
    "message.reverted": _warning(
        "Messages to {destination} are unresolved again, {count}, one of them "
        "{unique_message_id}: {reason}"
    ),
    "message.ejected": _warning(
        "Messages are taken out of batch {batch_id}, {count}, one of them "
        "{unique_message_id}: {reason}"
    ),
    "operation.completed": _info("Operation {operation_id} is complete"),
    "staging.renewed": _warning("The staging queue is deleted, to be declared anew: {reason}"),
    "staging.unusable": _error("The staging queue cannot be used: {reason}"),
    "api.listening": _info("The API listens on {host} port {port}"),
    "health.listening": _info("Health and metrics are told on {host} port {port}"),
    "health.not_listening": _warning("Health and metrics cannot be asked for: {reason}"),
    "watcher.failed": _error(
        "Counting or tracing a retry failed: {error}; the retry itself goes on"
    ),
    "tracing.unavailable": _warning("Traces are asked for and cannot be sent: {reason}"),
    "tick.failed": _error("The recurring task {tick} failed: {reason}"),
    "tick.recovered": _info("The recurring task {tick} works again"),
}


class Say(Protocol):
    """What tells an event; code asks for this, so that tests can listen."""

    def __call__(self, event: str, /, **fields: object) -> None:
        """Tell one event of the table."""
        ...


class Events:
    """Writes events to one stream, in one form, from one level on."""

    def __init__(self, stream: TextIO, form: Form = "auto", level: int = logging.INFO) -> None:
        self._logger: FilteringBoundLogger = structlog.wrap_logger(
            structlog.WriteLogger(stream),
            processors=[structlog.processors.add_log_level, *finish(stream, form)],
            wrapper_class=structlog.make_filtering_bound_logger(level),
        )

    def say(self, event: str, /, **fields: object) -> None:
        """Tell one event of the table; `exc_info` adds a traceback. Raises KeyError on another."""
        level, sentence = EVENTS[event].level, put_into_words(event, fields)
        bound = self._logger.bind(**fields, _name=event)
        # A log that cannot be written must not stop a retry half-way.
        with suppress(OSError, ValueError):
            bound.log(level, sentence)


def put_into_words(event: str, fields: Mapping[str, object]) -> str:
    """Return the sentence of an event; a field that is not given reads `?`. Raises KeyError."""
    shown = {name: show(value) for name, value in fields.items() if name != "exc_info"}
    return EVENTS[event].sentence.format_map(_Shown(shown))


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


class _Shown(dict[str, object]):
    """Fields for a sentence, forgiving: a missing one is no reason to fail at run time."""

    def __missing__(self, _field: str) -> str:
        return "?"
