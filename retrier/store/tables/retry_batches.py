"""Retry batches (`retry_batches`): added, and moved by compare-and-set."""

from collections.abc import Sequence
from datetime import timedelta
from functools import cache

from sqlalchemy import Update, bindparam, delete, update

from retrier.domain.retry_batch import NEXT, RetryBatchStatus
from retrier.store.engine.transaction import Transaction
from retrier.store.schema import retry_batches

batches = retry_batches.c

# Made once: SQLAlchemy takes longer to make a statement than to execute it.
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
    """Move a batch if it is in the status before `to`; return whether this call moved it."""
    source = next(status for status, following in NEXT.items() if following is to)
    written = {"status": to, "modified_at": tx.now, **columns}
    moved = _move(tuple(sorted(written)))
    known = {"moved": batch_id, "source": source, **written}
    return tx.execute(moved, known).rowcount == 1


def resize(tx: Transaction, batch_id: str, size: int) -> None:
    """Store how many claims a batch in Marking got."""
    tx.execute(
        update(retry_batches)
        .where(batches.batch_id == batch_id)
        .values(initial_size=size, modified_at=tx.now)
    )


def back_off(tx: Transaction, batch_id: str, wait: timedelta, reason: str) -> None:
    """Make a batch in Staging wait, and store the reason."""
    tx.execute(
        update(retry_batches)
        .where(batches.batch_id == batch_id, batches.status == RetryBatchStatus.STAGING)
        .values(not_before=tx.now + wait, reason=reason, modified_at=tx.now)
    )


def remove(tx: Transaction, batch_id: str) -> None:
    """Delete a batch; the pointer must not name it any more (foreign key)."""
    tx.execute(_DELETE, {"batch": batch_id})


@cache
def _move(columns: Sequence[str]) -> Update:
    return (
        update(retry_batches)
        .where(batches.batch_id == bindparam("moved"), batches.status == bindparam("source"))
        .values({batches[name]: bindparam(name, type_=batches[name].type) for name in columns})
    )
