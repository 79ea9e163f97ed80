"""Understands one delivery from an error queue; what it cannot understand is a failed import."""

from collections.abc import Sequence
from datetime import datetime
from functools import partial

from retrier.domain.classifiers import Classify, classify, classify_alike
from retrier.domain.dialects import written_by_consumer
from retrier.domain.dialects.dialect import Unintelligible
from retrier.domain.failed_message import (
    Confirmation,
    FailedImport,
    Failure,
    OwnCopy,
    Received,
)
from retrier.domain.headers import RETRY_SUCCESSFUL, STAGING_ID, UNIQUE_MESSAGE_ID
from retrier.domain.identity import canonical, fingerprint, is_guid
from retrier.domain.text import clean
from retrier.domain.times import parse_iso_time, parse_wire_time
from retrier.domain.wire import Delivery, PropertyCodec, UnreadableProperties
from retrier.ingestion.arrival import Arrival, read_arrival
from retrier.ingestion.failure import understand_failure
from retrier.ingestion.queue_mapping import QueueMapping

UNFORESEEN = "unforeseen"


class Reading:
    """A received batch that is being understood, one message after the other."""

    def __init__(
        self,
        deliveries: Sequence[Delivery],
        codec: PropertyCodec,
        mapping: QueueMapping,
        received_at: datetime,
    ) -> None:
        """Understand nothing yet."""
        self.deliveries = deliveries
        self._understood: list[Received] = []
        self._parse = partial(
            parse, codec=codec, mapping=mapping, received_at=received_at, classify=classify_alike()
        )

    def go_on(self) -> bool:
        """Understand one more, if there is one; say whether there was. Never raises."""
        read = len(self._understood)
        if read < len(self.deliveries):
            self._understood.append(self._parse(self.deliveries[read]))
        return read < len(self.deliveries)

    def finish(self) -> Sequence[Received]:
        """Understand all the others, too; return what each turned out to be. Never raises."""
        while self.go_on():
            pass
        return self._understood


def parse(
    delivery: Delivery,
    codec: PropertyCodec,
    mapping: QueueMapping,
    received_at: datetime,
    classify: Classify = classify,
) -> Received:
    """Return what the delivery turns out to be. Never raises."""
    try:
        return _understand(read_arrival(delivery, codec, mapping, received_at, classify))
    except UnreadableProperties as error:
        reason = f"its properties cannot be read: {error}"
    except Exception as error:  # noqa: BLE001 - no message may block the others, whatever it holds
        # Only what went wrong: the words of the error may quote the message.
        reason = f"{UNFORESEEN} {type(error).__name__}"
    mark = fingerprint(delivery.raw, delivery.body)
    return _failed_import(delivery, mark, reason, received_at)


def refused_import(delivery: Delivery, received: Received, reason: str, at: datetime) -> Received:
    """Return a delivery that the database refuses as a failed import."""
    mark = fingerprint(delivery.raw, delivery.body)
    if isinstance(received, Failure | FailedImport):
        mark = received.fingerprint
    return _failed_import(delivery, mark, f"the database refuses it: {reason}", at)


def _understand(arrival: Arrival) -> Received:
    """Ask what it is, in this order: our own copy, a confirmation, a failure."""
    match _read(arrival):
        case Unintelligible(reason=reason):
            return _failed_import(
                arrival.delivery, arrival.fingerprint, reason, arrival.received_at
            )
        case received:
            return received


def _read(arrival: Arrival) -> Received | Unintelligible:
    headers = arrival.properties.headers
    if STAGING_ID in headers:
        return _own_copy(arrival)
    # Middleware copies headers: a failure that carries another message's confirmation is one.
    if RETRY_SUCCESSFUL in headers and not written_by_consumer(arrival.properties):
        return _confirmation(arrival)
    return understand_failure(arrival)


def _own_copy(arrival: Arrival) -> OwnCopy:
    unique_id = arrival.properties.text(UNIQUE_MESSAGE_ID)
    return OwnCopy(
        staging_id=clean(arrival.properties.text(STAGING_ID) or ""),
        unique_message_id=clean(unique_id) if unique_id else None,
        error_queue=arrival.delivery.queue,
    )


def _confirmation(arrival: Arrival) -> Confirmation | Unintelligible:
    unique_id = arrival.properties.text(UNIQUE_MESSAGE_ID)
    if unique_id is None or not is_guid(unique_id):
        return Unintelligible(f"it confirms a retry, but {UNIQUE_MESSAGE_ID} is no unique id")
    text = arrival.properties.text(RETRY_SUCCESSFUL)
    return Confirmation(
        unique_message_id=canonical(unique_id),
        succeeded_at=arrival.believable(parse_wire_time(text) or parse_iso_time(text)),
        received_at=arrival.received_at,
    )


def _failed_import(delivery: Delivery, mark: str, reason: str, at: datetime) -> FailedImport:
    return FailedImport(
        error_queue=delivery.queue,
        reason=clean(reason),
        raw=delivery.raw,
        body=delivery.body,
        fingerprint=mark,
        received_at=at,
        redelivered=delivery.redelivered,
    )
