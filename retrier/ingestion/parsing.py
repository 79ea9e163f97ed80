"""Understands one delivery from an error queue; what it cannot understand is a failed import."""

from collections.abc import Sequence
from datetime import datetime
from functools import partial

from retrier.domain.classifiers import CauseOf, cause_of, cause_of_alike
from retrier.domain.dialects import written_by_consumer
from retrier.domain.dialects.dialect import Unintelligible
from retrier.domain.failed_message import FailedImport, Failure, Judged, Received
from retrier.domain.headers import RETRY_SUCCESSFUL
from retrier.domain.identity import fingerprint
from retrier.domain.wire import Delivery, PropertyCodec, UnreadableProperties
from retrier.ingestion.arrival import Arrival, make_import, read_arrival
from retrier.ingestion.confirmation import read_confirmation
from retrier.ingestion.failure import understand_failure
from retrier.ingestion.queue_mapping import QueueMapping
from retrier.ingestion.stamps import may_be_copy, read_stamped

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
            parse, codec=codec, mapping=mapping, received_at=received_at, cause_of=cause_of_alike()
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
    cause_of: CauseOf = cause_of,
) -> Received:
    """Return what the delivery turns out to be. Never raises."""
    try:
        return _understand(read_arrival(delivery, codec, mapping, received_at, cause_of))
    except UnreadableProperties as error:
        reason = f"its properties cannot be read: {error}"
    except Exception as error:  # noqa: BLE001 - no message may block the others, whatever it holds
        # Only what went wrong: the words of the error may quote the message.
        reason = f"{UNFORESEEN} {type(error).__name__}"
    mark = fingerprint(delivery.raw, delivery.body)
    return make_import(delivery, mark, reason, received_at)


def refused_import(delivery: Delivery, received: Received, reason: str, at: datetime) -> Received:
    """Return a delivery that the database refuses as a failed import."""
    mark = fingerprint(delivery.raw, delivery.body)
    if isinstance(received, Failure | FailedImport):
        mark = received.fingerprint
    return make_import(delivery, mark, f"the database refuses it: {reason}", at)


def _understand(arrival: Arrival) -> Received:
    """Ask what it is without the stamps of a copy, and whether these may be true."""
    judged = _judge(arrival)
    return read_stamped(arrival, judged) if may_be_copy(arrival) else judged


def _judge(arrival: Arrival) -> Judged:
    # Middleware copies headers: a failure that carries another message's confirmation is one.
    headers = arrival.properties.headers
    if RETRY_SUCCESSFUL in headers and not written_by_consumer(arrival.properties):
        return read_confirmation(arrival)
    match understand_failure(arrival):
        case Unintelligible(reason=reason):
            return arrival.as_import(reason)
        case failure:
            return failure
