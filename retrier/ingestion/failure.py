"""Makes a failed message of an arrival, in whatever dialect its failure is written."""

from dataclasses import replace

from retrier.domain import dialects
from retrier.domain.dialects.dialect import Dialect, Unintelligible
from retrier.domain.failed_message import Failure, FailureDetails
from retrier.domain.headers import RETRY_ID, UNIQUE_MESSAGE_ID
from retrier.domain.identity import body_hash, canonical, is_guid
from retrier.domain.text import clean, out_of_limits
from retrier.ingestion.arrival import Arrival


def understand_failure(arrival: Arrival) -> Failure | Unintelligible:
    """Read an arrival as a failed message, or say what is missing."""
    dialect = _dialect(arrival)
    if isinstance(dialect, Unintelligible):
        return dialect
    details = dialect.read(arrival.properties, otherwise=arrival.mapping.destination)
    if isinstance(details, Unintelligible):
        return details
    return _failure(arrival, dialect, _storable(arrival, details))


def _dialect(arrival: Arrival) -> Dialect | Unintelligible:
    forced = arrival.mapping.dialect
    dialect = dialects.recognise(arrival.properties, forced)
    if dialect is not None:
        return dialect
    if forced is not None:
        return Unintelligible(f"no dialect is called {forced!r}")
    if arrival.mapping.destination is not None:
        return dialects.RETRIER
    marks = ", ".join(each.mark for each in dialects.DIALECTS)
    return Unintelligible(f"none of the headers that say where it failed is there: {marks}")


def _storable(arrival: Arrival, details: FailureDetails) -> FailureDetails:
    """Fit what the headers say to the columns, to the clock and to the operator's word."""
    changes = out_of_limits(details)
    if arrival.mapping.destination:
        changes["destination"] = clean(arrival.mapping.destination)
    if arrival.believable(details.time_of_failure) is None:
        changes["time_of_failure"] = None
    return replace(details, **changes) if changes else details


def _failure(arrival: Arrival, dialect: Dialect, details: FailureDetails) -> Failure:
    delivery, properties = arrival.delivery, arrival.properties
    message_id = dialect.message_id(properties)
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
    )


def _stamped_id(arrival: Arrival) -> str | None:
    """Return the unique message id the headers claim; whether it is true the store knows."""
    text = arrival.properties.text(UNIQUE_MESSAGE_ID)
    return canonical(text) if text and is_guid(text) else None


def _clean(text: str | None) -> str | None:
    return clean(text) if text else None
