"""Redirects (`message_redirects`): set, changed and deleted; Staging applies them."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from sqlalchemy import Connection, delete, select, update

from retrier.domain.redirects import RedirectRefusal, redirect_id, why_not_redirect
from retrier.store import event_log
from retrier.store.database import Database
from retrier.store.event_log import Event
from retrier.store.schema import message_redirects

redirects = message_redirects.c


@dataclass(frozen=True, slots=True, kw_only=True)
class Redirect:
    """Retries for one queue go to another."""

    from_queue: str
    to_queue: str
    modified_at: datetime

    @property
    def redirect_id(self) -> str:
        """The id that follows from the queue it leads away from."""
        return redirect_id(self.from_queue)


def list_redirects(db: Database) -> tuple[Redirect, ...]:
    """Return all redirects, by the queue they lead away from. Raises DatabaseUnavailable."""
    return db.read(_list)


def create_redirect(
    db: Database, from_queue: str, to_queue: str, *, own_queues: frozenset[str], who: str
) -> str | None:
    """Create a redirect; None when it is there, also if it was before. Else why it may not be.

    Raises DatabaseUnavailable.
    """
    return db.transact(partial(_create, db, from_queue, to_queue, own_queues, who))


def change_redirect(
    db: Database, wanted_id: str, to_queue: str, *, own_queues: frozenset[str], who: str
) -> str | None:
    """Let a redirect lead elsewhere; None when it does, else why it may not.

    Raises DatabaseUnavailable.
    """
    return db.transact(partial(_change, db, wanted_id, to_queue, own_queues, who))


def delete_redirect(db: Database, wanted_id: str, *, who: str) -> None:
    """Delete a redirect if it is there. Raises DatabaseUnavailable."""
    db.transact(partial(_delete, db, wanted_id, who))


def _list(conn: Connection) -> tuple[Redirect, ...]:
    query = select(message_redirects).order_by(redirects.from_queue)
    return tuple(Redirect(**row) for row in conn.execute(query).mappings())


def _create(
    db: Database,
    from_queue: str,
    to_queue: str,
    own_queues: frozenset[str],
    who: str,
    conn: Connection,
) -> str | None:
    existing = _lock(db, conn)
    if existing.get(from_queue) == to_queue:
        return None
    refusal = why_not_redirect(existing, from_queue, to_queue, own_queues)
    if refusal is None:
        now = db.sql.now(conn)
        conn.execute(
            message_redirects.insert().values(
                from_queue=from_queue, to_queue=to_queue, modified_at=now
            )
        )
        _note(conn, now, who, "redirect_created", f"retries for {from_queue} go to {to_queue}")
    return refusal


def _change(
    db: Database,
    wanted_id: str,
    to_queue: str,
    own_queues: frozenset[str],
    who: str,
    conn: Connection,
) -> str | None:
    existing = _lock(db, conn)
    from_queue = _find(existing, wanted_id)
    if from_queue is None:
        return RedirectRefusal.UNKNOWN
    others = {queue: to for queue, to in existing.items() if queue != from_queue}
    refusal = why_not_redirect(others, from_queue, to_queue, own_queues)
    if refusal is None:
        now = db.sql.now(conn)
        conn.execute(
            update(message_redirects)
            .where(redirects.from_queue == from_queue)
            .values(to_queue=to_queue, modified_at=now)
        )
        _note(conn, now, who, "redirect_changed", f"retries for {from_queue} go to {to_queue}")
    return refusal


def _delete(db: Database, wanted_id: str, who: str, conn: Connection) -> None:
    from_queue = _find(_lock(db, conn), wanted_id)
    if from_queue is not None:
        conn.execute(delete(message_redirects).where(redirects.from_queue == from_queue))
        words = f"retries for {from_queue} go there again"
        _note(conn, db.sql.now(conn), who, "redirect_deleted", words)


def _lock(db: Database, conn: Connection) -> Mapping[str, str]:
    """Two redirects made at once must not become a chain, so only one at a time is made."""
    db.sql.lock_table(conn, message_redirects)
    return {redirect.from_queue: redirect.to_queue for redirect in _list(conn)}


def _find(existing: Mapping[str, str], wanted_id: str) -> str | None:
    wanted = wanted_id.lower()
    return next((queue for queue in existing if redirect_id(queue) == wanted), None)


def _note(conn: Connection, now: datetime, who: str, kind: str, text: str) -> None:
    event_log.append(conn, now, [Event(kind=kind, text=text, who=who)])
