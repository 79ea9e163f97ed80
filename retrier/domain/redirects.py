"""Redirects: which of them may exist together. Words and ids are ServiceControl's."""

from collections.abc import Container, Mapping
from enum import StrEnum

from retrier.domain.copies import why_not_sendable
from retrier.domain.failed_message import FailedMessageStatus
from retrier.domain.identity import md5_guid
from retrier.domain.selection import Selection


class RedirectRefusal(StrEnum):
    """Why a redirect is refused; a 409 also has ServiceControl's word in X-Particular-Reason."""

    ITSELF = "A redirect cannot lead to the queue it comes from."
    DUPLICATE = "Another redirect from this queue exists already."
    DEPENDENTS = "Redirects are not followed twice: another redirect begins or ends there."
    UNKNOWN = "No redirect has this id."


def redirect_id(from_queue: str) -> str:
    """Return the id of the redirect from this queue (ServiceControl: MessageRedirectId)."""
    return md5_guid(from_queue)


def what_it_moves(from_queue: str) -> Selection:
    """Return the pending retries that a redirect from this queue is about: those sent to it.

    Not those that went elsewhere: an operation named another queue, or a redirect led there, such
    as this one, when it was asked for before. Nor those that an operation sent here by name: sent
    again, they would go to where they failed.
    """
    issued = frozenset({FailedMessageStatus.RETRY_ISSUED})
    return Selection(statuses=issued, pending=True, sent_to=from_queue)


def why_not_redirect(
    existing: Mapping[str, str], from_queue: str, to_queue: str, own_queues: Container[str]
) -> str | None:
    """Return why a redirect is refused beside the existing ones; None if it is allowed.

    `existing` must not hold the redirect that is being changed. ServiceControl refuses a new one
    only if another leads to `from_queue`. A chain also arises if another starts at `to_queue`.
    """
    if from_queue == to_queue:
        return RedirectRefusal.ITSELF
    reason = why_not_sendable(to_queue, own_queues) or why_not_sendable(from_queue, frozenset())
    if reason is not None:
        return reason
    if from_queue in existing:
        return RedirectRefusal.DUPLICATE
    if from_queue in existing.values() or to_queue in existing:
        return RedirectRefusal.DEPENDENTS
    return None
