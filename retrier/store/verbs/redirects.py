"""Redirects: created, changed and deleted; Staging applies them."""

from collections.abc import Mapping

from retrier.domain.redirects import RedirectRefusal, redirect_id, why_not_redirect
from retrier.store.engine.database import writing
from retrier.store.engine.transaction import Transaction
from retrier.store.tables import event_log, message_redirects
from retrier.store.tables.event_log import Entry


@writing
def create_redirect(
    tx: Transaction, from_queue: str, to_queue: str, *, own_queues: frozenset[str], who: str
) -> str | None:
    """Create a redirect; return None if it exists now (or did before), else why it is refused.

    Raises DatabaseUnavailable.
    """
    existing = message_redirects.lock(tx)
    if existing.get(from_queue) == to_queue:
        return None
    refusal = why_not_redirect(existing, from_queue, to_queue, own_queues)
    if refusal is None:
        message_redirects.add(tx, from_queue, to_queue)
        _note(tx, who, "redirect_created", f"retries for {from_queue} go to {to_queue}")
    return refusal


@writing
def change_redirect(
    tx: Transaction, wanted_id: str, to_queue: str, *, own_queues: frozenset[str], who: str
) -> str | None:
    """Change the target of a redirect; return None if done, else why it is refused.

    Raises DatabaseUnavailable.
    """
    existing = message_redirects.lock(tx)
    from_queue = _find(existing, wanted_id)
    if from_queue is None:
        return RedirectRefusal.UNKNOWN
    others = {queue: to for queue, to in existing.items() if queue != from_queue}
    refusal = why_not_redirect(others, from_queue, to_queue, own_queues)
    if refusal is None:
        message_redirects.change(tx, from_queue, to_queue)
        _note(tx, who, "redirect_changed", f"retries for {from_queue} go to {to_queue}")
    return refusal


@writing
def delete_redirect(tx: Transaction, wanted_id: str, *, who: str) -> None:
    """Delete a redirect if it exists. Raises DatabaseUnavailable."""
    from_queue = _find(message_redirects.lock(tx), wanted_id)
    if from_queue is not None:
        message_redirects.remove(tx, from_queue)
        _note(tx, who, "redirect_deleted", f"retries for {from_queue} go there again")


def _find(existing: Mapping[str, str], wanted_id: str) -> str | None:
    wanted = wanted_id.lower()
    return next((queue for queue in existing if redirect_id(queue) == wanted), None)


def _note(tx: Transaction, who: str, kind: str, text: str) -> None:
    event_log.append(tx, [Entry(kind=kind, text=text, who=who)])
