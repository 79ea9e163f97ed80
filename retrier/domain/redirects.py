"""Redirects: which of them may stand beside each other, as ServiceControl has it."""

from collections.abc import Mapping
from enum import StrEnum

from retrier.domain.copies import why_not_sendable
from retrier.domain.identity import md5_guid


class RedirectRefusal(StrEnum):
    """Why a redirect may not be; the 409s carry ServiceControl's own word (X-Particular-Reason)."""

    ITSELF = "A redirect cannot lead to the queue it comes from."
    DUPLICATE = "Another redirect from this queue exists already."
    DEPENDENTS = "Redirects are not followed twice: another redirect begins or ends there."
    UNKNOWN = "No redirect has this id."


def redirect_id(from_queue: str) -> str:
    """Return the id of the redirect from this queue (ServiceControl: MessageRedirectId)."""
    return md5_guid(from_queue)


def why_not_redirect(
    existing: Mapping[str, str], from_queue: str, to_queue: str, own_queues: frozenset[str]
) -> str | None:
    """Return why no redirect may lead from this queue to that one beside the others; None: it may.

    `existing` leaves out the redirect that is changed, if one is. ServiceControl looks only for
    redirects to `from_queue` when it makes one; a chain closes just as well at the other end.
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
