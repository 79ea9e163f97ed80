"""The dialect of RabbitMQ: what the broker writes on a message that it dead-letters."""

import re
from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType

from retrier.domain.dialects.dialect import (
    NOT_KNOWN,
    NOWHERE,
    Declared,
    FoundOn,
    Library,
    Unintelligible,
    amqp_field,
    count,
    is_text,
)
from retrier.domain.failed_message import FailureDetails
from retrier.domain.headers import COMPLETED_STEPS, ENDPOINT, MESSAGE_TYPE, STREAM
from retrier.domain.times import from_epoch, in_utc
from retrier.domain.wire import Properties

DEATHS = "x-death"

EXPIRED = "expired"
MAXLEN = "maxlen"
_WAIT_QUEUE = re.compile(
    r"delay_.*_\d+(_retry|_delay)?"  # Symfony Messenger
    r"|.+\.delay\.\d+"  # laravel-queue-rabbitmq
    r"|.+\.delay"  # Taskiq
    r"|nsb\.(v2\.)?delay-level-\d+"  # NServiceBus
    r"|celery_delayed_\d+",  # Celery on quorum queues
    re.DOTALL,
)
"""Names of queues on which messages only wait for the next try."""

VERDICTS = frozenset({"rejected", "delivery_limit"})
"""A consumer had the message: a retry must go there. Elsewhere it only lay in a queue."""

STRIPPED_PREFIXES = ("x-first-death-", "x-last-death-")
"""If a retry kept them and died again, RabbitMQ would see a dead-letter cycle and drop it."""

DECLARED = Declared(
    library="RabbitMQ",
    recognised_by=f"header `{DEATHS}`, where no library's headers are",
    feeds={
        "queue": f"`{DEATHS}`: a rejection before a length limit before an expiry",
        "exception_message": f"`{DEATHS}`, in words",
        "failure_reason": f"`{DEATHS}`",
        "time_of_failure": f"`{DEATHS}`",
        "attempts_reported": f"`{DEATHS}`, its count",
        "time_sent": "`timestamp`",
        "message_type": f"`type`, else `{MESSAGE_TYPE}`",
        "message_id": "`message_id`",
        "endpoint": f"`{ENDPOINT}`",
    },
    removes=(DEATHS, *(f"{each}*" for each in STRIPPED_PREFIXES)),
    comes_back="a rejection keeps all headers",
)


class RabbitMqDialect(Library):
    """Headers written by the broker: rejected, expired, over a length or a delivery limit."""

    name = "rabbitmq"
    mark = DEATHS
    declared = DECLARED

    def recognises(self, properties: Properties, body: bytes = b"") -> bool:  # noqa: ARG002 - the headers say it
        """Say whether the broker dead-lettered the message."""
        return self.mark in properties.headers

    def read(
        self,
        properties: Properties,
        *,
        otherwise: str | None = None,
        body: bytes = b"",  # noqa: ARG002 - the headers say all of it
        found_on: FoundOn = NOWHERE,  # noqa: ARG002 - and where it failed
    ) -> FailureDetails | Unintelligible:
        """Read the death that says where the message failed."""
        death = _failure_among(properties.headers.get(DEATHS))
        queue = is_text(death.get("queue")) or otherwise
        if queue is None:
            return Unintelligible(f"no entry of the header {DEATHS} names a queue")
        if death.get("reason") == EXPIRED and is_wait_queue(queue):
            queue = otherwise or NOT_KNOWN
        return FailureDetails(
            queue=queue,
            destination=queue,
            endpoint=properties.text(ENDPOINT),
            message_type=amqp_field(properties, "type") or properties.text(MESSAGE_TYPE),
            exception_message=_in_words(death),
            failure_reason=is_text(death.get("reason")),
            time_of_failure=_time(death.get("time")),
            time_sent=from_epoch(properties.fields.get("timestamp")),
            attempts_reported=count(death.get("count")),
            completed_steps=properties.text(COMPLETED_STEPS),
            stream_id=properties.text(STREAM),
        )


def rejecting_queue(properties: Properties) -> str | None:
    """Return the queue on which a consumer gave the message up; None if it only lay in queues."""
    death = _failure_among(properties.headers.get(DEATHS))
    return is_text(death.get("queue")) if is_text(death.get("reason")) in VERDICTS else None


def is_wait_queue(queue: str) -> bool:
    """Say whether a library lets messages wait there: none failed on it."""
    return _WAIT_QUEUE.fullmatch(queue) is not None


def _failure_among(deaths: object) -> Mapping[str, object]:
    """Return the newest verdict, else the newest other death (decisions 0037 and 0058).

    The broker lists the newest first.
    """
    tables = [each for each in deaths if isinstance(each, dict)] if isinstance(deaths, list) else []
    return min(tables, key=_how_unlikely, default={})


def _how_unlikely(death: Mapping[str, object]) -> tuple[bool, int]:
    """Order deaths: a queue is named, then a verdict, a length, the unknown, an expiry."""
    reason = is_text(death.get("reason"))
    order = 0 if reason in VERDICTS else _OTHERWISE.get(reason or "", 2)
    return is_text(death.get("queue")) is None, order


_OTHERWISE: Mapping[str, int] = MappingProxyType({MAXLEN: 1, EXPIRED: 3})

_REASONS: Mapping[str, str] = MappingProxyType(
    {
        "delivery_limit": "delivery limit reached",
        EXPIRED: "message expired",
        MAXLEN: "queue length limit reached",
        "rejected": "rejected by a consumer",
    }
)
"""RabbitMQ's words for why it dead-letters (rabbitmq.com, "Dead Letter Exchanges")."""


def _in_words(death: Mapping[str, object]) -> str | None:
    reason, queue = is_text(death.get("reason")), is_text(death.get("queue"))
    if reason is None or queue is None:
        return None
    number = count(death.get("count"))
    often = f", {number} times" if number is not None and number > 1 else ""
    return f"{_REASONS.get(reason, reason)} on {queue}{often}"


def _time(value: object) -> datetime | None:
    return in_utc(value) if isinstance(value, datetime) else from_epoch(value)
