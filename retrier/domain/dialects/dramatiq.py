"""The dialect of Dramatiq: messages on its queues `.XQ`, which tell in their body what they are."""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from retrier.domain.dialects.dialect import Unintelligible, count, field
from retrier.domain.dialects.rabbitmq import DEATHS, RabbitMqDialect
from retrier.domain.failed_message import FailureDetails
from retrier.domain.times import from_epoch
from retrier.domain.wire import Properties

SUFFIX = ".XQ"
DELAYED = ".DQ"
LARGEST_BODY = 1024 * 1024
"""Bytes. A larger body is not read: then only the broker tells about the failure."""

_BROKER = RabbitMqDialect()


class DramatiqDialect:
    """What the broker writes; actor, id and traceback are in the body, which is JSON.

    No header tells it from other dead letters. It is tried only for error queues with SUFFIX.
    """

    name = "dramatiq"
    mark = DEATHS
    reads_body = True

    def recognises(self, headers: Mapping[str, object]) -> bool:
        """Say whether the broker dead-lettered it; whose message it is, only the body says."""
        return self.mark in headers

    def read(
        self, properties: Properties, *, otherwise: str | None = None, body: bytes = b""
    ) -> FailureDetails | Unintelligible:
        """Read the death, and of the body what can be read; the rest is as the broker tells it."""
        details = _BROKER.read(properties, otherwise=otherwise, body=body)
        if isinstance(details, Unintelligible):
            return details
        told = _table(body)
        options = told.get("options")
        options = options if isinstance(options, dict) else {}
        return _with_trace(_with_message(_canonical(details), told, options), options)

    def message_id(self, properties: Properties) -> str | None:
        """Return AMQP's message id. Dramatiq's own is in the body: `read` tells it."""
        return field(properties, "message_id")

    def computed_id(self, message_id: str, endpoint: str) -> str:
        """Return the unique message id computed from message id and failing endpoint."""
        return _BROKER.computed_id(message_id, endpoint)

    def strips(self, header: str) -> bool:
        """Say whether the broker wrote the header when the message died."""
        return _BROKER.strips(header)


def _table(body: bytes) -> Mapping[str, object]:
    """Return the JSON object of a body; an empty one for anything else, however deep it nests."""
    if len(body) > LARGEST_BODY:
        return {}
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):  # UnicodeDecodeError is a ValueError
        return {}
    return found if isinstance(found, dict) else {}


def _canonical(details: FailureDetails) -> FailureDetails:
    """Send a message that died on a delay queue to the queue whose actors handle it."""
    if not details.queue.endswith(DELAYED):
        return details
    queue = details.queue.removesuffix(DELAYED)
    return replace(details, queue=queue, destination=queue) if queue else details


def _with_message(
    details: FailureDetails, told: Mapping[str, object], options: Mapping[str, object]
) -> FailureDetails:
    retries = count(options.get("retries"))
    return replace(
        details,
        id_in_body=_text(told.get("message_id")),
        message_type=_text(told.get("actor_name")) or details.message_type,
        time_sent=_time(told.get("message_timestamp")) or details.time_sent,
        attempts_reported=details.attempts_reported if retries is None else retries + 1,
    )


def _with_trace(details: FailureDetails, options: Mapping[str, object]) -> FailureDetails:
    """Add the traceback of the run before the last one: Dramatiq dead-letters what it received."""
    trace = _text(options.get("traceback"))
    if trace is None:
        return details
    kind, _, message = trace.rstrip().rpartition("\n")[2].partition(":")
    return replace(
        details,
        stack_trace=trace,
        exception_type=kind.strip().rpartition(".")[2] or None,
        exception_message=message.strip() or details.exception_message,
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _time(value: object) -> datetime | None:
    return None if isinstance(value, bool) else from_epoch(value)
