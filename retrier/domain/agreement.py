"""Whether a failure or a confirmation is about a stored message that has its id."""

from retrier.domain.failed_message import Confirmation, Failure, Resolution
from retrier.domain.new_failure import confirmation_resolves
from retrier.domain.receipt import StoredMessage
from retrier.domain.text import clean


def agrees(failure: Failure, stored: StoredMessage) -> bool:
    """Say whether a failure with the id of a stored message can be a failure of that message.

    With another body the retry id must match: that of the claim in force, or of the last retry if
    the failure has a message id, too. A consumer may copy one message's headers to all it sends.
    """
    if stored.message_id != message_id_of(failure):
        return False
    if stored.body_hash == failure.body_hash:
        return True
    if failure.retry_id is None:
        return False
    known = failure.retry_id == stored.last_retry_id and failure.message_id is not None
    return known or failure.retry_id == stored.known.claim


def resolves(confirmation: Confirmation, stored: StoredMessage) -> bool:
    """Say whether it resolves the message; with content only one that waits for an outcome.

    Anybody can write the header: the content would be lost, and a failure hidden (decision 0020).
    """
    with_content = confirmation.if_idle is not None
    if with_content and not stored.known.waits_for_outcome:
        return False
    return confirmation_resolves(stored.known, succeeded_at=confirmation.succeeded_at)


def is_confirmed_by(confirmation: Confirmation, stored: StoredMessage) -> bool:
    """Say whether a confirmation with the same time has resolved the message before."""
    confirmed = stored.known.resolution is Resolution.CONFIRMED
    return confirmed and stored.known.confirmed_at == confirmation.succeeded_at


def message_id_of(failure: Failure) -> str | None:
    """Return the message id as its column holds it."""
    return clean(failure.message_id) if failure.message_id else None
