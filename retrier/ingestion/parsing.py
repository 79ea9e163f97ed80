"""What a received message is: a failure, a confirmation, a copy of our own, or a failed import."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime, timedelta
from functools import partial

from retrier.domain import dialects
from retrier.domain.classifiers import CauseOf, Fold, as_it_is, cause_of, cause_of_alike
from retrier.domain.copies import PROBE_BODY
from retrier.domain.dialects import written_by_consumer
from retrier.domain.dialects.accounts import BY_CONSUMERS, read_failure, read_worker
from retrier.domain.dialects.dialect import (
    NOT_KNOWN,
    Dialect,
    FoundOn,
    Original,
    Unintelligible,
    have_none,
)
from retrier.domain.dialects.own import OwnDialect
from retrier.domain.failed_imports import (
    IDLE,
    NO_CONTENT,
    NO_ID,
    REFUSED,
    UNFORESEEN,
    UNKNOWN_COPY,
    UNKNOWN_MESSAGE,
    UNREADABLE,
)
from retrier.domain.failed_message import (
    Confirmation,
    FailedImport,
    Failure,
    FailureDetails,
    Judged,
    OwnCopy,
    Received,
    Stamped,
)
from retrier.domain.fields import DeclaredField, read_fields
from retrier.domain.headers import (
    COMPLETED_STEPS,
    INSTALLATION_ID,
    LOGGED_ID,
    OF_WORKERS,
    RETRY_ID,
    RETRY_SUCCESSFUL,
    STAGING_ID,
    STREAM,
    STREAM_POSITION,
    UNIQUE_MESSAGE_ID,
)
from retrier.domain.identity import body_hash, canonical, fingerprint, is_guid
from retrier.domain.sender_facts import FactReader
from retrier.domain.streams import read_position
from retrier.domain.text import clean, out_of_limits
from retrier.domain.times import not_ahead_of, parse_iso_time, parse_wire_time
from retrier.domain.values import dataclass
from retrier.domain.wire import Delivery, Properties, PropertyCodec, UnreadableProperties


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueMapping:
    """An error queue, and how the messages on it are read.

    `dialect` is used instead of the one that would be recognised. `destination` is where retries
    go instead of the queue where the message failed. `take_from_work_queue` allows a queue that
    looks like the queue of a worker. `stream_header` has the id of the stream of a message,
    `stream_order_header` its position there.
    `volatile` are patterns of headers that say nothing about which message it is.
    `own_queues` are all that Retrier itself empties: no message failed there.
    `destinations` has queues by what a library names instead of a queue.
    `own` are the dialects of the settings, the same for all queues.
    `fields` are the declared fields, the same for all queues.
    `fold` takes out of names of types and frames what was generated, the same for all queues.
    `exists` says whether the broker has a queue; asked is about names with `@`, and
    about routing keys of a library that names no queue.
    """

    queue: str
    dialect: str | None = None
    destination: str | None = None
    take_from_work_queue: bool = False
    stream_header: str = STREAM
    volatile: tuple[str, ...] = ()
    own_queues: frozenset[str] = frozenset()
    stream_order_header: str = STREAM_POSITION
    destinations: Mapping[str, str] = field(default_factory=dict)
    own: tuple[OwnDialect, ...] = ()
    fields: tuple[DeclaredField, ...] = ()
    exists: Callable[[str], bool] = have_none
    fold: Fold = as_it_is


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
        found_on=_found_on(arrival.delivery, arrival.mapping),
    )
    if isinstance(details, Unintelligible):
        return details
    if arrival.mapping.destination and not dialect.recognises(arrival.properties, body):
        details = _with_reason(details)
    if details.queue == NOT_KNOWN:
        details = _with_place(arrival, details)
    inside = dialect.unwrap(arrival.properties, body)
    fields = _read_fields(arrival, details.queue, inside)
    if inside is not None:
        arrival = replace(arrival, properties=inside.properties)
    details = _with_words(arrival.properties, details)
    if not OF_WORKERS.isdisjoint(arrival.properties.headers):
        details = _with_crashes(arrival.properties, details)
    stored = _storable(arrival, _with_stream(arrival, details))
    return _failure(arrival, dialect, stored, fields)


def _read_fields(arrival: Arrival, queue: str, inside: Original | None) -> Mapping[str, str] | None:
    declared = arrival.mapping.fields
    if not declared:
        return None
    return read_fields(declared, queue, arrival.properties, arrival.delivery.body, inside)


def _found_on(delivery: Delivery, mapping: QueueMapping) -> FoundOn:
    """Say where it was found. A key that names a queue of ours does not say where it failed."""
    key = "" if delivery.routing_key in mapping.own_queues else delivery.routing_key
    return FoundOn(delivery.queue, key, mapping.exists)


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


def _with_place(arrival: Arrival, details: FailureDetails) -> FailureDetails:
    """Say where a message lies whose queue nothing names; its destination is not known.

    The settings may name it, by the endpoint that the library names instead of a queue.
    """
    named = arrival.mapping.destinations.get(details.endpoint or "")
    queue = named or arrival.delivery.queue
    return replace(details, queue=queue, destination=named or NOT_KNOWN)


def _with_words(properties: Properties, details: FailureDetails) -> FailureDetails:
    """Add what a sender tells Retrier in headers of Retrier's, beside those of any library."""
    if STREAM not in properties.headers and COMPLETED_STEPS not in properties.headers:
        return details
    return replace(
        details,
        stream_id=details.stream_id or properties.text(STREAM),
        completed_steps=details.completed_steps or properties.text(COMPLETED_STEPS),
    )


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


_FIRST_NAMED = (*BY_CONSUMERS, dialects.RABBITMQ)
"""Whose marks are named where there is none: with all of them the sentence would end nowhere."""


def _dialect(arrival: Arrival) -> Dialect | Unintelligible:
    forced = arrival.mapping.dialect
    delivery = arrival.delivery
    dialect = dialects.recognise(
        arrival.properties, forced, delivery.queue, delivery.body, arrival.mapping.own
    )
    if dialect is not None:
        return dialect
    if forced is not None:
        return Unintelligible(f"no dialect is called {forced!r}")
    if arrival.mapping.destination is not None:
        return dialects.RETRIER
    marks = ", ".join(dict.fromkeys(each.mark for each in _FIRST_NAMED))
    return Unintelligible(
        f"none of the headers that say where it failed is there: {marks}, or those of a library"
    )


def _storable(arrival: Arrival, details: FailureDetails) -> FailureDetails:
    """Fit details to the columns, drop a time too far ahead, apply the queue's destination.

    Of a destination no character is taken out: what is left would be the name of another queue. One
    that is cut is too long for any queue still.
    """
    changes = out_of_limits(details)
    if not details.destination.startswith(changes.get("destination", "")):
        changes["destination"] = NOT_KNOWN
    if arrival.mapping.destination:
        changes["destination"] = clean(arrival.mapping.destination)
    if arrival.believable(details.time_of_failure) is None:
        changes["time_of_failure"] = None
    return replace(details, **changes) if changes else details


def _failure(
    arrival: Arrival,
    dialect: Dialect,
    details: FailureDetails,
    fields: Mapping[str, str] | None,
) -> Failure:
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
        fields=fields,
        sender=arrival.reader,
    )


def _stamped_id(arrival: Arrival) -> str | None:
    """Return the unique message id in the headers; only the database shows if it is true."""
    text = arrival.properties.text(UNIQUE_MESSAGE_ID)
    return canonical(text) if text and is_guid(text) else None


def _clean(text: str | None) -> str | None:
    return clean(text) if text else None


class Reading:
    """A received batch that is being read, one message after the other."""

    def __init__(
        self,
        deliveries: Sequence[Delivery],
        codec: PropertyCodec,
        mapping: QueueMapping,
        received_at: datetime,
    ) -> None:
        """Read nothing yet."""
        self.deliveries = deliveries
        self._understood: list[Received] = []
        self._parse = partial(
            _parse,
            reader=FactReader(codec, mapping.volatile),
            mapping=mapping,
            received_at=received_at,
            cause_of=cause_of_alike(mapping.fold),
        )

    def parse_next(self) -> bool:
        """Read one more message; return whether there was one left. Never raises."""
        read = len(self._understood)
        if read < len(self.deliveries):
            self._understood.append(self._parse(self.deliveries[read]))
        return read < len(self.deliveries)

    def finish(self) -> Sequence[Received]:
        """Read the remaining messages; return what each of the batch is. Never raises."""
        while self.parse_next():
            pass
        return self._understood


def parse(
    delivery: Delivery,
    codec: PropertyCodec,
    mapping: QueueMapping,
    received_at: datetime,
) -> Received:
    """Return what the delivery is; one that cannot be read is a failed import. Never raises."""
    reader = FactReader(codec, mapping.volatile)
    return _parse(delivery, reader, mapping, received_at, partial(cause_of, fold=mapping.fold))


def _parse(
    delivery: Delivery,
    reader: FactReader,
    mapping: QueueMapping,
    received_at: datetime,
    cause_of: CauseOf,
) -> Received:
    try:
        return _understand(read_arrival(delivery, reader, mapping, received_at, cause_of))
    except UnreadableProperties as error:
        reason = f"{UNREADABLE}: {error}"
    except Exception as error:  # noqa: BLE001 - no message may block the others, whatever it holds
        # Only the type of the error: its text may quote the message.
        reason = f"{UNFORESEEN} {type(error).__name__}"
    mark = fingerprint(delivery.raw, delivery.body)
    return make_import(delivery, mark, reason, received_at)


def read_import(
    kept: FailedImport,
    destination: str | None = None,
    dialect: str | None = None,
    *,
    codec: PropertyCodec,
    mappings: Mapping[str, QueueMapping],
) -> Received:
    """Return what a failed import turns out to be today. Never raises.

    One from an error queue that is not listed any more is recognised by its headers. With a
    `destination` or a `dialect` it is read as if its error queue had that one.
    """
    delivery = Delivery(
        tag=None,
        queue=kept.error_queue,
        raw=kept.raw,
        body=kept.body,
        redelivered=kept.redelivered,
    )
    of_any = next(iter(mappings.values()), QueueMapping(queue=kept.error_queue))
    unlisted = QueueMapping(
        queue=kept.error_queue,
        own_queues=frozenset(mappings),
        own=of_any.own,
        fields=of_any.fields,
        fold=of_any.fold,
    )
    mapping = mappings.get(kept.error_queue, unlisted)
    if destination is not None:
        mapping = replace(mapping, destination=destination)
    if dialect is not None:
        mapping = replace(mapping, dialect=dialect)
    return parse(delivery, codec, mapping, kept.received_at)


def refused_import(delivery: Delivery, received: Received, reason: str, at: datetime) -> Received:
    """Return a delivery that the database refuses, as a failed import with that reason."""
    mark = fingerprint(delivery.raw, delivery.body)
    if isinstance(received, Failure | FailedImport):
        mark = received.fingerprint
    return make_import(delivery, mark, f"{REFUSED}: {reason}", at)


def _understand(arrival: Arrival) -> Received:
    """Judge it without the stamps of a copy, then add what it is if they are true."""
    judged = _judge(arrival)
    return read_stamped(arrival, judged) if may_be_copy(arrival) else judged


def _judge(arrival: Arrival) -> Judged:
    # Middleware copies headers: with failure headers it is a failure, whatever it confirms.
    headers = arrival.properties.headers
    if RETRY_SUCCESSFUL in headers and not written_by_consumer(arrival.properties):
        return read_confirmation(arrival)
    match understand_failure(arrival):
        case Unintelligible(reason=reason):
            return arrival.as_import(reason)
        case failure:
            return failure


def read_confirmation(arrival: Arrival) -> Confirmation | FailedImport:
    """Read a confirmation, and what it is if it confirms nothing: a body must not get lost."""
    unique_id = arrival.properties.text(UNIQUE_MESSAGE_ID)
    if unique_id is None or not is_guid(unique_id):
        return arrival.as_import(NO_ID)
    text = arrival.properties.text(RETRY_SUCCESSFUL)
    return Confirmation(
        unique_message_id=canonical(unique_id),
        succeeded_at=arrival.believable(parse_wire_time(text) or parse_iso_time(text)),
        received_at=arrival.received_at,
        if_unknown=arrival.as_import(UNKNOWN_MESSAGE),
        if_idle=None if arrival.delivery.body in NO_CONTENT else _as_unconfirming(arrival),
        redelivered=arrival.delivery.redelivered,
    )


def _as_unconfirming(arrival: Arrival) -> Failure | FailedImport:
    """Return what it is if it confirms nothing: a failure only if it says itself that it failed.

    SQS takes no empty body, and delivers twice. Taken for a failure because of the queue that it is
    on, the text of a confirmation would be sent to a consumer as work.
    """
    if not _says_it_failed(arrival):
        return arrival.as_import(IDLE)
    match understand_failure(arrival):
        case Unintelligible():
            return arrival.as_import(IDLE)
        case failure:
            return failure


def _says_it_failed(arrival: Arrival) -> bool:
    dialect = _dialect(arrival)
    if isinstance(dialect, Unintelligible):
        return False
    if dialect.name == dialects.SQS.name:
        return dialects.SQS.was_moved(arrival.properties)
    return dialect.recognises(arrival.properties, arrival.delivery.body)


def may_be_copy(arrival: Arrival) -> bool:
    """Say whether it looks like a copy of any installation, or like a probe.

    A copy has no body: any other message with a body is somebody's and must be kept.
    """
    installation = arrival.properties.text(INSTALLATION_ID)
    return (
        arrival.delivery.body in (b"", PROBE_BODY)
        and installation is not None
        and is_guid(installation)
    )


def read_stamped(arrival: Arrival, otherwise: Judged) -> Stamped:
    """Return what a message with stamps is in each case; `otherwise` is it without stamps."""
    properties = arrival.properties
    installation = properties.text(INSTALLATION_ID) or ""
    staging_id = clean(properties.text(STAGING_ID) or "")
    unique_id = properties.text(UNIQUE_MESSAGE_ID)
    copy = OwnCopy(
        staging_id=staging_id,
        unique_message_id=clean(unique_id) if unique_id else None,
        error_queue=arrival.delivery.queue,
    )
    empty = not arrival.delivery.body
    anothers = empty and is_guid(staging_id)
    return Stamped(
        installation_id=installation,
        staging_id=staging_id,
        if_ours=copy,
        if_unknown=arrival.as_import(UNKNOWN_COPY) if empty else otherwise,
        if_anothers=replace(copy, of_another=installation) if anothers else otherwise,
    )
