"""Reads the word of a consumer that a retry succeeded."""

from retrier.domain.dialects.dialect import Unintelligible
from retrier.domain.failed_message import Confirmation, FailedImport, Failure
from retrier.domain.headers import RETRY_SUCCESSFUL, UNIQUE_MESSAGE_ID
from retrier.domain.identity import canonical, is_guid
from retrier.domain.times import parse_iso_time, parse_wire_time
from retrier.ingestion.arrival import Arrival
from retrier.ingestion.failure import understand_failure

NO_ID = f"it confirms a retry, but {UNIQUE_MESSAGE_ID} is no unique id"
UNKNOWN = "it confirms a retry of a message that is not known here"
IDLE = "it confirms a retry, but none of that message is under way; it has a body, so it is kept"

NO_CONTENT = frozenset({b"", b"{}"})
"""What a client writes as the body of a message that has none (Kombu: an empty JSON object)."""


def read_confirmation(arrival: Arrival) -> Confirmation | FailedImport:
    """Read a confirmation, and what it is if it confirms nothing: its body must not get lost."""
    unique_id = arrival.properties.text(UNIQUE_MESSAGE_ID)
    if unique_id is None or not is_guid(unique_id):
        return arrival.as_import(NO_ID)
    text = arrival.properties.text(RETRY_SUCCESSFUL)
    return Confirmation(
        unique_message_id=canonical(unique_id),
        succeeded_at=arrival.believable(parse_wire_time(text) or parse_iso_time(text)),
        received_at=arrival.received_at,
        if_unknown=arrival.as_import(UNKNOWN),
        if_idle=None if arrival.delivery.body in NO_CONTENT else _without_its_word(arrival),
        redelivered=arrival.delivery.redelivered,
    )


def _without_its_word(arrival: Arrival) -> Failure | FailedImport:
    match understand_failure(arrival):
        case Unintelligible():
            return arrival.as_import(IDLE)
        case failure:
            return failure
