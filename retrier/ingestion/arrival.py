"""One delivery with its properties read, and the failed message that is made of it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from retrier.domain import dialects
from retrier.domain.classifiers import CauseOf
from retrier.domain.dialects.accounts import have_none, read_failure, read_worker
from retrier.domain.dialects.dialect import Dialect, Unintelligible
from retrier.domain.failed_message import FailedImport, Failure, FailureDetails
from retrier.domain.headers import (
    LOGGED_ID,
    OF_WORKERS,
    RETRY_ID,
    STREAM,
    STREAM_POSITION,
    UNIQUE_MESSAGE_ID,
)
from retrier.domain.identity import body_hash, canonical, fingerprint, is_guid
from retrier.domain.sender_facts import FactReader
from retrier.domain.streams import read_position
from retrier.domain.text import clean, out_of_limits
from retrier.domain.times import not_ahead_of
from retrier.domain.wire import Delivery, Properties


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueMapping:
    """An error queue, and how the messages on it are read.

    `dialect` is used instead of the one that would be recognised. `destination` is where retries
    go instead of the queue where the message failed. `take_from_work_queue` allows a queue that
    looks like the queue of a worker. `stream_header` has the id of the stream of a message,
    `stream_order_header` its position there.
    `volatile` are patterns of headers that say nothing about which message it is.
    `own_queues` are all that Retrier itself empties: no message failed there.
    `exists` says whether the broker has a queue; asked is only about names with `@`.
    """

    queue: str
    dialect: str | None = None
    destination: str | None = None
    take_from_work_queue: bool = False
    stream_header: str = STREAM
    volatile: tuple[str, ...] = ()
    own_queues: frozenset[str] = frozenset()
    stream_order_header: str = STREAM_POSITION
    exists: Callable[[str], bool] = have_none


CLOCK_SLACK = timedelta(days=1)
"""How far ahead a sender's clock may be; a later time would outrank all future failures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A delivery, its properties, and the fingerprint of properties and body.

    `cause_of` is the function that computes the cause of the failure; `reader` has read it.
    """

    delivery: Delivery
    properties: Properties
    fingerprint: str
    mapping: QueueMapping
    received_at: datetime
    cause_of: CauseOf
    reader: FactReader

    def believable(self, time: datetime | None) -> datetime | None:
        """Return the time; None if it is more than CLOCK_SLACK after the message was received."""
        return not_ahead_of(self.received_at, time, CLOCK_SLACK)

    def as_import(self, reason: str) -> FailedImport:
        """Return this arrival as a failed import."""
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
    reader: FactReader,
    mapping: QueueMapping,
    received_at: datetime,
    cause_of: CauseOf,
) -> Arrival:
    """Read the properties of a delivery. Raises UnreadableProperties.

    The reader is kept by each failure: one for many costs less than one for each.
    """
    properties, canonical = reader.codec.read_with_canonical(delivery.raw)
    return Arrival(
        delivery=delivery,
        properties=properties,
        fingerprint=fingerprint(canonical, delivery.body),
        mapping=mapping,
        received_at=received_at,
        cause_of=cause_of,
        reader=reader,
    )


UNACKED_BYTES = 64 * 1024 * 1024
"""The most bytes of unacknowledged messages to hold in memory."""


def next_prefetch(current: int, average_bytes: float, most: int) -> int:
    """Return the prefetch after a committed batch: doubled while `most` and UNACKED_BYTES allow.

    RabbitMQ limits by number only, so bytes are estimated from the average of the last batch. If
    messages have become too large for the present prefetch, it shrinks.
    """
    if average_bytes * 2 * current <= UNACKED_BYTES:
        return min(2 * current, most)
    while current > 1 and average_bytes * current > UNACKED_BYTES:
        current //= 2
    return current


def understand_failure(arrival: Arrival) -> Failure | Unintelligible:
    """Return an arrival as a failed message; Unintelligible names what is missing."""
    dialect = _dialect(arrival)
    if isinstance(dialect, Unintelligible):
        return dialect
    body = arrival.delivery.body if dialect.reads_body else b""
    details = read_failure(
        dialect,
        arrival.properties,
        otherwise=arrival.mapping.destination,
        body=body,
        own_queues=arrival.mapping.own_queues,
        latest=arrival.received_at + CLOCK_SLACK,
        exists=arrival.mapping.exists,
    )
    if isinstance(details, Unintelligible):
        return details
    if arrival.mapping.destination and not dialect.recognises(arrival.properties.headers):
        details = _with_reason(details)
    if not OF_WORKERS.isdisjoint(arrival.properties.headers):
        details = _with_crashes(arrival.properties, details)
    return _failure(arrival, dialect, _storable(arrival, _with_stream(arrival, details)))


def _with_stream(arrival: Arrival, details: FailureDetails) -> FailureDetails:
    """Take the stream from the headers that the settings name; dialects read only ours."""
    header = arrival.mapping.stream_header
    if header != STREAM:
        details = replace(details, stream_id=arrival.properties.text(header))
    if details.stream_id is None:
        return details
    stated = arrival.properties.headers.get(arrival.mapping.stream_order_header)
    if stated is None:
        return details
    position = read_position(stated)
    if position is not None:
        return replace(details, stream_position=position)
    shown = clean(str(stated), _SHOWN_BYTES)
    return replace(details, stream_position_unread=shown or _NOTHING)


_SHOWN_BYTES = 200
"""Bytes that are kept of a position that cannot be read."""
_NOTHING = "(an empty text)"


NO_HEADERS = "no failure headers"


def _with_reason(details: FailureDetails) -> FailureDetails:
    """Say why there is nothing to say: the settings alone tell where it failed.

    Without a reason it would be in no group of those that go by one.
    """
    known = details.exception_type or details.exception_message or details.failure_reason
    return details if known else replace(details, failure_reason=NO_HEADERS)


def _with_crashes(properties: Properties, details: FailureDetails) -> FailureDetails:
    """Add what a worker says of its crashes."""
    crashes, rejected = read_worker(properties)
    return replace(details, crashes=crashes, rejected=rejected)


def _dialect(arrival: Arrival) -> Dialect | Unintelligible:
    forced = arrival.mapping.dialect
    dialect = dialects.recognise(arrival.properties, forced, arrival.delivery.queue)
    if dialect is not None:
        return dialect
    if forced is not None:
        return Unintelligible(f"no dialect is called {forced!r}")
    if arrival.mapping.destination is not None:
        return dialects.RETRIER
    marks = ", ".join(dict.fromkeys(each.mark for each in dialects.DIALECTS))
    return Unintelligible(f"none of the headers that say where it failed is there: {marks}")


def _storable(arrival: Arrival, details: FailureDetails) -> FailureDetails:
    """Fit details to the columns, drop a time too far ahead, apply the queue's destination."""
    changes = out_of_limits(details)
    if arrival.mapping.destination:
        changes["destination"] = clean(arrival.mapping.destination)
    if arrival.believable(details.time_of_failure) is None:
        changes["time_of_failure"] = None
    return replace(details, **changes) if changes else details


def _failure(arrival: Arrival, dialect: Dialect, details: FailureDetails) -> Failure:
    delivery, properties = arrival.delivery, arrival.properties
    message_id = details.id_in_body or dialect.message_id(properties)
    endpoint = details.endpoint or details.queue
    return Failure(
        stamped_id=_stamped_id(arrival),
        computed_id=dialect.computed_id(message_id, endpoint) if message_id else None,
        message_id=_clean(message_id),
        retry_id=_clean(properties.text(RETRY_ID)),
        dialect=dialect.name,
        details=details,
        cause=arrival.cause_of(details),
        raw=delivery.raw,
        body=delivery.body,
        body_hash=body_hash(delivery.body),
        fingerprint=arrival.fingerprint,
        error_queue=delivery.queue,
        redelivered=delivery.redelivered,
        received_at=arrival.received_at,
        logged_id=arrival.properties.text(LOGGED_ID),
        keeps_texts=dialect.reads_body,
        sender=arrival.reader,
    )


def _stamped_id(arrival: Arrival) -> str | None:
    """Return the unique message id in the headers; only the database shows if it is true."""
    text = arrival.properties.text(UNIQUE_MESSAGE_ID)
    return canonical(text) if text and is_guid(text) else None


def _clean(text: str | None) -> str | None:
    return clean(text) if text else None
