"""Redirects (`message_redirects`): retries for one queue go to another."""

from collections.abc import Mapping

from sqlalchemy import delete, select, update

from retrier.store.engine.transaction import Transaction
from retrier.store.schema import message_redirects

redirects = message_redirects.c


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


def add(tx: Transaction, from_queue: str, to_queue: str) -> None:
    """Add one."""
    values = {"from_queue": from_queue, "to_queue": to_queue, "modified_at": tx.now}
    tx.execute(message_redirects.insert().values(values))


def change(tx: Transaction, from_queue: str, to_queue: str) -> None:
    """Change the target of one."""
    tx.execute(
        update(message_redirects)
        .where(redirects.from_queue == from_queue)
        .values(to_queue=to_queue, modified_at=tx.now)
    )


def remove(tx: Transaction, from_queue: str) -> None:
    """Delete one."""
    tx.execute(delete(message_redirects).where(redirects.from_queue == from_queue))
