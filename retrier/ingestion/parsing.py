"""What a received message is: a failure, a confirmation, a copy of our own, or a failed import."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial

from retrier.domain.classifiers import CauseOf, cause_of, cause_of_alike
from retrier.domain.copies import PROBE_BODY
from retrier.domain.dialects import written_by_consumer
from retrier.domain.dialects.dialect import Unintelligible
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
    Judged,
    OwnCopy,
    Received,
    Stamped,
)
from retrier.domain.headers import INSTALLATION_ID, RETRY_SUCCESSFUL, STAGING_ID, UNIQUE_MESSAGE_ID
from retrier.domain.identity import canonical, fingerprint, is_guid
from retrier.domain.sender_facts import FactReader
from retrier.domain.text import clean
from retrier.domain.times import parse_iso_time, parse_wire_time
from retrier.domain.wire import Delivery, PropertyCodec, UnreadableProperties
from retrier.ingestion.arrival import (
    Arrival,
    QueueMapping,
    make_import,
    read_arrival,
    understand_failure,
)


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
            cause_of=cause_of_alike(),
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
    cause_of: CauseOf = cause_of,
) -> Received:
    """Return what the delivery is; one that cannot be read is a failed import. Never raises."""
    return _parse(delivery, FactReader(codec, mapping.volatile), mapping, received_at, cause_of)


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
    *,
    codec: PropertyCodec,
    mappings: Mapping[str, QueueMapping],
) -> Received:
    """Return what a failed import turns out to be today. Never raises.

    One from an error queue that is not listed any more is recognised by its headers. With a
    `destination` it is read as if its error queue had that one.
    """
    delivery = Delivery(
        tag=None,
        queue=kept.error_queue,
        raw=kept.raw,
        body=kept.body,
        redelivered=kept.redelivered,
    )
    unlisted = QueueMapping(queue=kept.error_queue, own_queues=frozenset(mappings))
    mapping = mappings.get(kept.error_queue, unlisted)
    if destination is not None:
        mapping = replace(mapping, destination=destination)
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
    match understand_failure(arrival):
        case Unintelligible():
            return arrival.as_import(IDLE)
        case failure:
            return failure


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
