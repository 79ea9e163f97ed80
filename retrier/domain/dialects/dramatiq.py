"""The dialect of Dramatiq: messages on its queues `.XQ`, which tell in their body what they are."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from retrier.domain.dialects.dialect import (
    NOWHERE,
    Declared,
    FoundOn,
    Library,
    Unintelligible,
    count,
    is_text,
    table_of,
)
from retrier.domain.dialects.rabbitmq import DEATHS, RabbitMqDialect
from retrier.domain.failed_message import FailureDetails
from retrier.domain.times import from_epoch
from retrier.domain.wire import Properties

SUFFIX = ".XQ"
DELAYED = ".DQ"

_BROKER = RabbitMqDialect()

DECLARED = Declared(
    library="Dramatiq, dead-lettered",
    recognised_by=f"header `{DEATHS}`, on an error queue whose name ends with `{SUFFIX}`",
    feeds={
        "queue": f"`{DEATHS}`, without `{DELAYED}`",
        "message_type": "body: `actor_name`",
        "message_id": "body: `message_id`",
        "exception_type": "body: `options.traceback`, its last line",
        "exception_message": "body: `options.traceback`, its last line",
        "stack_trace": "body: `options.traceback`",
        "attempts_reported": "body: `options.retries` + 1",
        "time_sent": "body: `message_timestamp`",
    },
    comes_back="writes no header; with Retrier's module it confirms",
)


class DramatiqDialect(Library):
    """What the broker writes; actor, id and traceback are in the body, which is JSON.

    No header tells it from other dead letters. It is tried only for error queues with SUFFIX.
    """

    name = "dramatiq"
    mark = DEATHS
    reads_body = True
    declared = DECLARED

    def recognises(self, properties: Properties, body: bytes = b"") -> bool:  # noqa: ARG002 - its queue says it
        """Say whether the broker dead-lettered it; whose message it is, only the body says."""
        return self.mark in properties.headers

    def read(
        self,
        properties: Properties,
        *,
        otherwise: str | None = None,
        body: bytes = b"",
        found_on: FoundOn = NOWHERE,
    ) -> FailureDetails | Unintelligible:
        """Read the death, and of the body what can be read; the rest is as the broker tells it."""
        details = _BROKER.read(properties, otherwise=otherwise, body=body, found_on=found_on)
        if isinstance(details, Unintelligible):
            return details
        told = table_of(body)
        options = told.get("options")
        options = options if isinstance(options, dict) else {}
        return _with_trace(_with_message(_canonical(details), told, options), options)


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
        id_in_body=is_text(told.get("message_id")),
        message_type=is_text(told.get("actor_name")) or details.message_type,
        time_sent=_time(told.get("message_timestamp")) or details.time_sent,
        attempts_reported=details.attempts_reported if retries is None else retries + 1,
    )


def _with_trace(details: FailureDetails, options: Mapping[str, object]) -> FailureDetails:
    """Add the traceback of the run before the last one: Dramatiq dead-letters what it received."""
    trace = is_text(options.get("traceback"))
    if trace is None:
        return details
    kind, _, message = trace.rstrip().rpartition("\n")[2].partition(":")
    return replace(
        details,
        stack_trace=trace,
        exception_type=kind.strip().rpartition(".")[2] or None,
        exception_message=message.strip() or details.exception_message,
    )


def _time(value: object) -> datetime | None:
    return None if isinstance(value, bool) else from_epoch(value)
