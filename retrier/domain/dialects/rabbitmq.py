"""The dialect of RabbitMQ: what the broker writes on a message that it dead-letters."""

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType

from retrier.domain.dialects.dialect import Unintelligible, count, field
from retrier.domain.failed_message import FailureDetails
from retrier.domain.headers import COMPLETED_STEPS, ENDPOINT, MESSAGE_TYPE, STREAM
from retrier.domain.identity import computed_id
from retrier.domain.times import from_epoch, in_utc
from retrier.domain.wire import Properties

DEATHS = "x-death"

EXPIRED = "expired"
MAXLEN = "maxlen"
VERDICTS = frozenset({"rejected", "delivery_limit"})
"""A consumer had the message: a retry must go there. Elsewhere it only lay in a queue."""

STRIPPED_PREFIXES = ("x-first-death-", "x-last-death-")
"""If a retry kept them and died again, RabbitMQ would see a dead-letter cycle and drop it."""


class RabbitMqDialect:
    """Headers written by the broker: rejected, expired, over a length or a delivery limit."""

    name = "rabbitmq"
    mark = DEATHS
    reads_body = False

    def recognises(self, headers: Mapping[str, object]) -> bool:
        """Say whether the broker dead-lettered the message."""
        return self.mark in headers

    def read(
        self,
        properties: Properties,
        *,
        otherwise: str | None = None,
        body: bytes = b"",  # noqa: ARG002 - the headers say all of it
    ) -> FailureDetails | Unintelligible:
        """Read the death that says where the message failed."""
        death = _failure_among(properties.headers.get(DEATHS))
        queue = _text(death.get("queue")) or otherwise
        if queue is None:
            return Unintelligible(f"no entry of the header {DEATHS} names a queue")
        return FailureDetails(
            queue=queue,
            destination=queue,
            endpoint=properties.text(ENDPOINT),
            message_type=field(properties, "type") or properties.text(MESSAGE_TYPE),
            exception_message=_in_words(death),
            failure_reason=_text(death.get("reason")),
            time_of_failure=_time(death.get("time")),
            time_sent=from_epoch(properties.fields.get("timestamp")),
            attempts_reported=count(death.get("count")),
            completed_steps=properties.text(COMPLETED_STEPS),
            stream_id=properties.text(STREAM),
        )

    def message_id(self, properties: Properties) -> str | None:
        """Return AMQP's message id."""
        return field(properties, "message_id")

    def computed_id(self, message_id: str, endpoint: str) -> str:
        """Return the unique message id computed from message id and failing endpoint."""
        return computed_id(message_id, endpoint)

    def strips(self, header: str) -> bool:
        """Say whether the broker wrote the header when the message died."""
        return header == DEATHS or header.startswith(STRIPPED_PREFIXES)


def _failure_among(deaths: object) -> Mapping[str, object]:
    """Return the newest verdict, else the newest other death (decisions 0037 and 0058).

    The broker lists the newest first.
    """
    tables = [each for each in deaths if isinstance(each, dict)] if isinstance(deaths, list) else []
    return min(tables, key=_how_unlikely, default={})


def _how_unlikely(death: Mapping[str, object]) -> tuple[bool, int]:
    """Order deaths: a queue is named, then a verdict, a length, the unknown, an expiry."""
    reason = _text(death.get("reason"))
    order = 0 if reason in VERDICTS else _OTHERWISE.get(reason or "", 2)
    return _text(death.get("queue")) is None, order


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
    reason, queue = _text(death.get("reason")), _text(death.get("queue"))
    if reason is None or queue is None:
        return None
    number = count(death.get("count"))
    often = f", {number} times" if number is not None and number > 1 else ""
    return f"{_REASONS.get(reason, reason)} on {queue}{often}"


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _time(value: object) -> datetime | None:
    return in_utc(value) if isinstance(value, datetime) else from_epoch(value)
