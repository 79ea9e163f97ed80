"""What Retrier tells its operator: every line with its level and its words.

Fields are names, ids, counts and reasons: never a body, a header's value or a secret. What is
about an operation, a batch or a message has `operation_id`, `batch_id`, `unique_message_id`.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from retrier.app.log.form import show


@dataclass(frozen=True, slots=True)
class Wording:
    """How one line is told: its level and its sentence, with the fields it names in braces."""

    level: int
    sentence: str


def _info(sentence: str) -> Wording:
    return Wording(logging.INFO, sentence)


def _warning(sentence: str) -> Wording:
    return Wording(logging.WARNING, sentence)


def _error(sentence: str) -> Wording:
    return Wording(logging.ERROR, sentence)


LINES: Mapping[str, Wording] = {
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
    "subscriber.failed": _error(
        "Counting or tracing a retry failed: {error}; the retry itself goes on"
    ),
    "tracing.unavailable": _warning("Traces are asked for and cannot be sent: {reason}"),
    "tick.failed": _error("The recurring task {tick} failed: {reason}"),
    "tick.recovered": _info("The recurring task {tick} works again"),
}


@dataclass(frozen=True, slots=True)
class Line:
    """One line to be written; `error` is told with where it was raised."""

    name: str
    fields: Mapping[str, object]
    error: Exception | None = None


def make_line(name: str, /, error: Exception | None = None, **fields: object) -> Line:
    """Return a line of the table; of an error it names the type. Raises KeyError on another."""
    if name not in LINES:
        raise KeyError(name)
    named = {} if error is None else {"error": type(error).__name__}
    return Line(name, {**named, **fields}, error)


def put_into_words(line: Line) -> str:
    """Return the sentence of a line; a field that is not given reads `?`."""
    shown = {name: show(value) for name, value in line.fields.items()}
    return LINES[line.name].sentence.format_map(_Shown(shown))


class _Shown(dict[str, object]):
    """Fields for a sentence, forgiving: a missing one is no reason to fail at run time."""

    def __missing__(self, _field: str) -> str:
        return "?"
