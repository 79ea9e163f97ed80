"""One delivery with its properties read: what parsing looks at."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from retrier.domain.classifiers import CauseOf
from retrier.domain.failed_message import FailedImport
from retrier.domain.identity import fingerprint
from retrier.domain.text import clean
from retrier.domain.times import not_ahead_of
from retrier.domain.wire import Delivery, Properties, PropertyCodec


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueMapping:
    """An error queue, and how the messages on it are to be understood.

    `dialect` is read instead of the one that is recognised; `destination` is where retries go
    instead of where the message failed.
    """

    queue: str
    dialect: str | None = None
    destination: str | None = None


CLOCK_SLACK = timedelta(days=1)
"""So far ahead a sender's clock may be; a later time would outrank every failure to come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A delivery, what its properties say, and the fingerprint of all of it.

    `cause_of` is what its cause is asked of.
    """

    delivery: Delivery
    properties: Properties
    fingerprint: str
    mapping: QueueMapping
    received_at: datetime
    cause_of: CauseOf

    def believable(self, time: datetime | None) -> datetime | None:
        """Return a time that a sender's clock may have shown; None for one too far ahead."""
        return not_ahead_of(self.received_at, time, CLOCK_SLACK)

    def as_import(self, reason: str) -> FailedImport:
        """Return it as a failed import."""
        return make_import(self.delivery, self.fingerprint, reason, self.received_at)


def make_import(delivery: Delivery, mark: str, reason: str, at: datetime) -> FailedImport:
    """Return a delivery as a failed import; `mark` is its fingerprint."""
    return FailedImport(
        error_queue=delivery.queue,
        reason=clean(reason),
        raw=delivery.raw,
        body=delivery.body,
        fingerprint=mark,
        received_at=at,
        redelivered=delivery.redelivered,
    )


def read_arrival(
    delivery: Delivery,
    codec: PropertyCodec,
    mapping: QueueMapping,
    received_at: datetime,
    cause_of: CauseOf,
) -> Arrival:
    """Read the properties of a delivery. Raises UnreadableProperties."""
    properties, canonical = codec.read_with_canonical(delivery.raw)
    return Arrival(
        delivery=delivery,
        properties=properties,
        fingerprint=fingerprint(canonical, delivery.body),
        mapping=mapping,
        received_at=received_at,
        cause_of=cause_of,
    )


UNACKED_BYTES = 64 * 1024 * 1024
"""So much at most is to lie unacknowledged in memory."""


def next_prefetch(current: int, average_bytes: float, most: int) -> int:
    """Return the prefetch after a batch was committed: doubled while both bounds allow it.

    RabbitMQ bounds by number only, so the bytes are foreseen from those of the last batch; where
    messages have grown since, the prefetch shrinks.
    """
    if average_bytes * 2 * current <= UNACKED_BYTES:
        return min(2 * current, most)
    while current > 1 and average_bytes * current > UNACKED_BYTES:
        current //= 2
    return current
