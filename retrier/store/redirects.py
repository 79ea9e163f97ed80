"""Redirects (`message_redirects`): retries for one queue go to another; Staging applies them."""

from collections.abc import Container, Mapping
from datetime import datetime

from sqlalchemy import ColumnElement, FromClause, case, delete, select, update

from retrier.domain.dialects.dialect import NOT_KNOWN
from retrier.domain.redirects import RedirectRefusal, redirect_id, why_not_redirect
from retrier.domain.values import dataclass
from retrier.store import event_log
from retrier.store.engine.database import reading, writing
from retrier.store.engine.sql_dialect import by_code_point
from retrier.store.engine.transaction import Transaction
from retrier.store.event_log import Entry
from retrier.store.schema import causes, message_redirects

redirects = message_redirects.c


def redirected_from(cause: FromClause) -> ColumnElement[str]:
    """Return the queue from which a redirect leads messages of a cause.

    That is where they were found, if their destination is not known.
    """
    named = cause.c.destination
    return case((named == NOT_KNOWN, cause.c.queue), else_=named)


REDIRECTED_FROM = redirected_from(causes)


def lock(tx: Transaction) -> Mapping[str, str]:
    """Lock the table against changes by others; return all redirects, from queue to queue.

    Without the lock, two redirects made at the same time could become a chain.
    """
    tx.sql.lock_table(tx.conn, message_redirects)
    return read(tx)


def read(tx: Transaction) -> Mapping[str, str]:
    """Return all redirects, from queue to queue."""
    rows = tx.execute(select(redirects.from_queue, redirects.to_queue).order_by("from_queue"))
    return {row[0]: row[1] for row in rows}


@dataclass(frozen=True, slots=True, kw_only=True)
class Redirect:
    """Retries for one queue go to another."""

    from_queue: str
    to_queue: str
    modified_at: datetime

    @property
    def redirect_id(self) -> str:
        """The id, which is computed from `from_queue`."""
        return redirect_id(self.from_queue)


@reading
def list_redirects(tx: Transaction) -> tuple[Redirect, ...]:
    """Return all redirects, sorted by `from_queue`. Raises DatabaseUnavailable."""
    query = select(message_redirects).order_by(by_code_point(redirects.from_queue))
    return tuple(Redirect(**row) for row in tx.execute(query).mappings())


@writing
def create_redirect(
    tx: Transaction, from_queue: str, to_queue: str, *, own_queues: Container[str], who: str
) -> str | None:
    """Create a redirect; return None if it exists now (or did before), else why it is refused.

    Raises DatabaseUnavailable.
    """
    existing = lock(tx)
    if existing.get(from_queue) == to_queue:
        return None
    refusal = why_not_redirect(existing, from_queue, to_queue, own_queues)
    if refusal is None:
        values = {"from_queue": from_queue, "to_queue": to_queue, "modified_at": tx.now}
        tx.execute(message_redirects.insert().values(values))
        _note(tx, who, "redirect_created", f"retries for {from_queue} go to {to_queue}")
    return refusal


@writing
def change_redirect(
    tx: Transaction, wanted_id: str, to_queue: str, *, own_queues: Container[str], who: str
) -> str | None:
    """Change the target of a redirect; return None if done, else why it is refused.

    Raises DatabaseUnavailable.
    """
    existing = lock(tx)
    from_queue = _find(existing, wanted_id)
    if from_queue is None:
        return RedirectRefusal.UNKNOWN
    others = {queue: to for queue, to in existing.items() if queue != from_queue}
    refusal = why_not_redirect(others, from_queue, to_queue, own_queues)
    if refusal is None:
        mine = update(message_redirects).where(redirects.from_queue == from_queue)
        tx.execute(mine.values(to_queue=to_queue, modified_at=tx.now))
        _note(tx, who, "redirect_changed", f"retries for {from_queue} go to {to_queue}")
    return refusal


@writing
def delete_redirect(tx: Transaction, wanted_id: str, *, who: str) -> None:
    """Delete a redirect if it exists. Raises DatabaseUnavailable."""
    from_queue = _find(lock(tx), wanted_id)
    if from_queue is not None:
        tx.execute(delete(message_redirects).where(redirects.from_queue == from_queue))
        _note(tx, who, "redirect_deleted", f"retries for {from_queue} go there again")


def _find(existing: Mapping[str, str], wanted_id: str) -> str | None:
    wanted = wanted_id.lower()
    return next((queue for queue in existing if redirect_id(queue) == wanted), None)


def _note(tx: Transaction, who: str, kind: str, text: str) -> None:
    event_log.append(tx, [Entry(kind=kind, text=text, who=who)])
