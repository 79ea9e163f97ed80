"""One delivery with its properties read: what parsing looks at."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from retrier.domain.classifiers import CauseOf
from retrier.domain.failed_message import FailedImport
from retrier.domain.identity import fingerprint
from retrier.domain.text import clean
from retrier.domain.times import not_ahead_of
from retrier.domain.wire import Delivery, Properties, PropertyCodec
from retrier.ingestion.queue_mapping import QueueMapping

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
