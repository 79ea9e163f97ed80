"""Retry batches (`retry_batches`): opened, and moved by compare-and-set."""

from collections.abc import Sequence
from datetime import timedelta
from functools import cache

from sqlalchemy import Update, bindparam, delete, update

from retrier.domain.retry_batch import NEXT, RetryBatchStatus
from retrier.store.engine.transaction import Transaction
from retrier.store.schema import retry_batches

batches = retry_batches.c

# Made once: SQLAlchemy takes longer to make a statement than to carry it out.
_ADD = retry_batches.insert()
_DELETE = delete(retry_batches).where(batches.batch_id == bindparam("batch"))


def add(tx: Transaction, row: dict[str, object]) -> None:
    """Add a batch, in Marking unless the row says otherwise."""
    blank = {
        "status": RetryBatchStatus.MARKING,
        "initial_size": 0,
        "stage_attempts": 0,
        "created_at": tx.now,
        "modified_at": tx.now,
    }
    tx.execute(_ADD, {**blank, **row})


def move(tx: Transaction, batch_id: str, to: RetryBatchStatus, **columns: object) -> bool:
    """Compare-and-set: true when this call made the move, and only from the status before it."""
    source = next(status for status, following in NEXT.items() if following is to)
    written = {"status": to, "modified_at": tx.now, **columns}
    moved = _move(tuple(sorted(written)))
    known = {"moved": batch_id, "source": source, **written}
    return tx.execute(moved, known).rowcount == 1


def resize(tx: Transaction, batch_id: str, size: int) -> None:
    """Note how many claims a batch in Marking got."""
    tx.execute(
        update(retry_batches)
        .where(batches.batch_id == batch_id)
        .values(initial_size=size, modified_at=tx.now)
    )


def back_off(tx: Transaction, batch_id: str, wait: timedelta, reason: str) -> None:
    """Let a batch in Staging wait, and say why."""
    tx.execute(
        update(retry_batches)
        .where(batches.batch_id == batch_id, batches.status == RetryBatchStatus.STAGING)
        .values(not_before=tx.now + wait, reason=reason, modified_at=tx.now)
    )


def remove(tx: Transaction, batch_id: str) -> None:
    """Delete a batch to which nothing points any more."""
    tx.execute(_DELETE, {"batch": batch_id})


@cache
def _move(columns: Sequence[str]) -> Update:
    return (
        update(retry_batches)
        .where(batches.batch_id == bindparam("moved"), batches.status == bindparam("source"))
        .values({batches[name]: bindparam(name, type_=batches[name].type) for name in columns})
    )
