"""All lines of the log, each with its level and its sentence.

Fields are names, ids, counts and reasons: never a body, a header's value or a secret. A line about
an operation, a batch or a message has `operation_id`, `batch_id` or `unique_message_id`.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from retrier.app.log.form import show


@dataclass(frozen=True, slots=True)
class Wording:
    """The level of one line and its sentence, in which fields stand in braces."""

    level: int
    sentence: str


def _info(sentence: str) -> Wording:
    return Wording(logging.INFO, sentence)


def _warning(sentence: str) -> Wording:
    return Wording(logging.WARNING, sentence)


def _error(sentence: str) -> Wording:
    return Wording(logging.ERROR, sentence)


LINES: Mapping[str, Wording] = {
    "service.starting": _info("Retrier {version} is starting as {instance}, roles: {roles}"),
    "service.default_database": _info(
        "no database is named: the default is used, the file {place}"
    ),
    "service.knob_used": _info("{variable} is used for {setting}"),
    "service.places": _info("Broker: {broker}; database: {database}"),
    "service.started": _info("Retrier is up"),
    "service.part_failed": _error("Unexpected error: {part} has stopped working"),
    "service.stopping": _info("Retrier is stopping: {reason}"),
    "service.stopped": _info("Retrier has stopped"),
    "database.unreachable": _error("Waiting for the database: {reason}"),
    "database.reached": _info("The database is back"),
    "database.sessions_ended": _warning(
        "Ended database sessions of a frozen or lost process that were holding locks: {count}"
    ),
    "database.notifications_missing": _warning("Notifications of the database: {reason}"),
    "database.notifications_back": _info("Notifications of the database arrive"),
    "processes.differ": _warning("Processes that use this database differ: {reason}"),
    "processes.agree": _info("All processes have the same version, policies and error queues"),
    "broker.unreachable": _error("Waiting for the broker: {reason}"),
    "broker.reached": _info("The broker is back"),
    "ingestion.started": _info("Ingestion from {queue} started"),
    "ingestion.paused": _warning("Ingestion from {queue} paused: {reason}"),
    "ingestion.resumed": _info("Ingestion from {queue} resumed"),
    "ingestion.failed_import": _warning(
        "Kept as failed imports from {queue}: {count}; they cannot be understood: {reason}"
    ),
    "ingestion.own_copy": _warning(
        "Dropped copies from the staging queue that arrived on {queue}: {count}; a dead-"
        "letter or expiry policy of the broker sends them there"
    ),
    "ingestion.copy_of_another": _warning(
        "Dropped copies of the Retrier installation {installation_id} that arrived on "
        "{queue}: {count}; a dead-letter or expiry policy of the broker sends them there"
    ),
    "ingestion.delivery_limit": _warning(
        "Failed messages may leave {queue} before they are stored; {reason}. Remove the limit"
    ),
    "ingestion.queue_missing": _error(
        "The error queue {queue} does not exist: the broker drops what is dead-lettered to it. "
        "Declare it, or set ingestion.declare_missing"
    ),
    "ingestion.queue_doubtful": _warning("{reason}"),
    "processor.waiting_for_lease": _info("Standing by: process {pid} on {host} is the processor"),
    "processor.lease_acquired": _info("This process is now the processor (epoch {epoch})"),
    "processor.lease_lost": _warning("Lost the processor lease: {reason}"),
    "processor.gave_way": _warning(
        "Gave up the processor lease so that another process can take it: {reason}"
    ),
    "processor.lease_held_long": _warning(
        "A transaction ({verb}) held the lease for {seconds} s: nothing else was sent meanwhile. "
        "Of its {statements} statements the slowest took {slowest_seconds} s: {slowest}"
    ),
    "processor.turn_failed": _error("Unexpected error in the processor: {error}"),
    "processor.backing_off": _warning("The processor is waiting before its next attempt: {reason}"),
    "processor.recovered": _info("The processor is working again"),
    "batch.marked": _info("Batch {batch_id} is marked, messages: {size}"),
    "batch.adopted": _warning(
        "Adopted batch {batch_id}, which a stop or an error had left in Marking, messages: {size}; "
        "without any it is deleted"
    ),
    "batch.staged": _info("Batch {batch_id} is staged, messages: {size}"),
    "batch.forwarding": _info("Batch {batch_id} is being forwarded"),
    "batch.forwarded": _info("Batch {batch_id} is forwarded"),
    "batch.sent_again": _warning(
        "Sending messages of batch {batch_id} again that were in doubt after a crash or a lost "
        "connection: {count}; they may arrive twice"
    ),
    "batch.moved": _warning(
        "What was not forwarded of batch {batch_id} moves to batch {new_batch_id}, messages: "
        "{size}; {reason}"
    ),
    "batch.backing_off": _warning("Batch {batch_id} is waiting: {reason}"),
    "message.reverted": _warning(
        "Unresolved again after a retry to {destination}: {count}, for example "
        "{unique_message_id}: {reason}"
    ),
    "message.ejected": _warning(
        "Taken out of batch {batch_id}: {count}, for example {unique_message_id}: {reason}"
    ),
    "policies.scheduled": _info(
        "Policy {policy} retries messages by itself that failed: {count}; by reason: {reasons}"
    ),
    "policies.dead": _warning(
        "Policy {policy} has given up messages: {count}; by reason: {reasons}"
    ),
    "retries.presumed": _info(
        "Presumed to have succeeded, because their retries were sent long ago and did not come "
        "back: {count}"
    ),
    "breaker.opened": _warning("A breaker has opened: {words}"),
    "breaker.half_opened": _info("A breaker lets one message go: {words}"),
    "breaker.closed": _info("A breaker has closed: {words}"),
    "breaker.hand_ended": _info("The time of a breaker set by hand is over: {words}"),
    "breaker.set": _info("A breaker was set by hand: {words}"),
    "staging.held_back": _info(
        "Taken out of batch {batch_id} because a breaker has opened, messages: {size}"
    ),
    "operation.completed": _info("Operation {operation_id} is complete"),
    "operation.paused": _info("Operation {operation_id} is paused: nothing more is cut off it"),
    "operation.resumed": _info("Operation {operation_id} goes on"),
    "operation.cancel_asked": _info("Operation {operation_id} is to be cancelled"),
    "operation.cancelled": _info("Operation {operation_id} is cancelled"),
    "operation.rate_changed": _info("Operation {operation_id} sends {rate}"),
    "canary.sent": _info(
        "The first messages of operation {operation_id} are sent; it waits for what comes back"
    ),
    "canary.passed": _info(
        "Of the first {sent} messages of operation {operation_id} {came_back} came back: it goes on"
    ),
    "canary.failed": _warning(
        "Of the first {sent} messages of operation {operation_id} {came_back} came back: it is "
        "paused until somebody resumes or cancels it"
    ),
    "archive.asked": _info(
        "Asked to {act} {total} messages: operation {operation_id} does it chunk by chunk"
    ),
    "archive.completed": _info("Operation {operation_id} ({act}) is complete"),
    "archive.paused": _warning(
        "Archiving, unarchiving and resolving many messages paused: {reason}"
    ),
    "archive.resumed": _info("Archiving, unarchiving and resolving many messages resumed"),
    "policies.taken": _info("The policies of {file} are in force: set {set_hash}, rules: {rules}"),
    "policies.wrong": _warning(
        "The policies of {file} are wrong, and those before them stay in force: {reason}"
    ),
    "policies.right": _info("The policies of {file} are right again, and in force: set {set_hash}"),
    "outgoing.paused": _warning("Sending copies of failures and notices paused: {reason}"),
    "outgoing.resumed": _info("Sending copies of failures and notices resumed"),
    "outgoing.queue_failed": _warning(
        "{queue} takes no copies or notices: {reason}; they are kept and sent later"
    ),
    "outgoing.queue_recovered": _info("{queue} takes copies or notices again"),
    "outgoing.put_off": _warning(
        "Copies or notices that {queue} did not take: {count}; they are tried again every "
        "minute: {reason}"
    ),
    "dead.declared": _info("{unique_message_id} is declared dead"),
    "retention.swept": _info(
        "Deleted for their age: messages {messages}, operations {operations}, failed imports "
        "{imports}"
    ),
    "stream.released": _info(
        "Released {count} messages of stream {stream_id} of {queue}: they no longer wait for "
        "earlier ones"
    ),
    "staging.renewed": _warning("Deleting the staging queue and declaring it again: {reason}"),
    "staging.unusable": _error("The staging queue cannot be used: {reason}"),
    "api.listening": _info("The API is listening on {host} port {port}"),
    "health.listening": _info("Health and metrics are available on {host} port {port}"),
    "health.not_listening": _warning("Health and metrics are not available: {reason}"),
    "subscriber.failed": _error(
        "Counting, tracing or logging failed: {error}; retries are not affected"
    ),
    "tracing.unavailable": _warning("Traces are configured but cannot be sent: {reason}"),
    "tick.failed": _error("The recurring task {tick} failed: {reason}"),
    "tick.recovered": _info("The recurring task {tick} is working again"),
}


@dataclass(frozen=True, slots=True)
class Line:
    """One line to be written; of `error` the place where it was raised is shown, too."""

    name: str
    fields: Mapping[str, object]
    error: Exception | None = None


def make_line(name: str, /, error: Exception | None = None, **fields: object) -> Line:
    """Return the line of this name; an error adds its type. Raises KeyError if not in LINES."""
    if name not in LINES:
        raise KeyError(name)
    named = {} if error is None else {"error": type(error).__name__}
    return Line(name, {**named, **fields}, error)


def put_into_words(line: Line) -> str:
    """Return the sentence of a line; `?` stands for a field that is not given."""
    shown = {name: show(value) for name, value in line.fields.items()}
    return LINES[line.name].sentence.format_map(_Shown(shown))


class _Shown(dict[str, object]):
    """The fields for a sentence. A missing field gives `?`: logging must not fail at run time."""

    def __missing__(self, _field: str) -> str:
        return "?"
