"""Retry batches: reading them, and moving them by compare-and-set."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from sqlalchemy import Connection, delete, or_, select, update

from retrier.domain.retry_batch import NEXT, RetryBatch, RetryBatchStatus
from retrier.store.database import Database
from retrier.store.lease import Fence, hold
from retrier.store.schema import retry_batch_now_forwarding, retry_batches, retry_operations

batches = retry_batches.c


def find_forwarding(db: Database) -> RetryBatch | None:
    """Return the batch the pointer names, or None. Raises DatabaseUnavailable."""
    pointed = select(retry_batch_now_forwarding.c.batch_id)
    return db.read(partial(_find, select(retry_batches).where(batches.batch_id.in_(pointed))))


def find_marking(db: Database) -> RetryBatch | None:
    """Return a batch in Marking: at the top of a turn it is an orphan, whoever left it."""
    return db.read(
        partial(_find, select(retry_batches).where(batches.status == RetryBatchStatus.MARKING))
    )


def find_staging(db: Database) -> RetryBatch | None:
    """Return the batch that may be staged next: by priority, then age; not_before respected."""
    return db.read(partial(_find_staging, db))


def is_any_staging(db: Database) -> bool:
    """Say whether any batch is in Staging, also one that has to wait."""
    query = select(batches.batch_id).where(batches.status == RetryBatchStatus.STAGING).limit(1)
    return db.read(lambda conn: conn.execute(query).first() is not None)


def back_off_batch(
    db: Database, fence: Fence, batch_id: str, *, wait: timedelta, reason: str
) -> None:
    """Let a batch in Staging wait, and say why. Raises LeaseLost, DatabaseUnavailable."""

    def back_off(conn: Connection) -> None:
        now = hold(db, conn, fence)
        conn.execute(
            update(retry_batches)
            .where(batches.batch_id == batch_id, batches.status == RetryBatchStatus.STAGING)
            .values(not_before=now + wait, reason=reason, modified_at=now)
        )

    db.transact(back_off)


def move(
    conn: Connection, batch_id: str, to: RetryBatchStatus, now: datetime, **columns: object
) -> bool:
    """Compare-and-set: true when this call made the move, and only from the status before it."""
    source = next(status for status, following in NEXT.items() if following is to)
    moved = conn.execute(
        update(retry_batches)
        .where(batches.batch_id == batch_id, batches.status == source)
        .values(status=to, modified_at=now, **columns)
    )
    return moved.rowcount == 1


def delete_batch(conn: Connection, batch_id: str) -> None:
    """Delete a batch that is done or has nothing left, and the pointer if it names it."""
    pointer = retry_batch_now_forwarding.c.batch_id == batch_id
    conn.execute(delete(retry_batch_now_forwarding).where(pointer))
    conn.execute(delete(retry_batches).where(batches.batch_id == batch_id))


def from_row(row: Mapping[str, Any]) -> RetryBatch:
    """Return a row of retry_batches as the domain's value."""
    values = {column.name: row[column.name] for column in batches}
    return RetryBatch(**{**values, "status": RetryBatchStatus(row["status"])})


def _find_staging(db: Database, conn: Connection) -> RetryBatch | None:
    now = db.sql.now(conn)
    query = (
        select(retry_batches)
        .join(retry_operations, retry_operations.c.operation_id == batches.operation_id)
        .where(
            batches.status == RetryBatchStatus.STAGING,
            or_(batches.not_before.is_(None), batches.not_before <= now),
        )
        .order_by(retry_operations.c.priority, batches.created_at, batches.batch_id)
        .limit(1)
    )
    return _find(query, conn)


def _find(query: Any, conn: Connection) -> RetryBatch | None:
    row = conn.execute(query).mappings().first()
    return from_row(dict(row)) if row is not None else None
