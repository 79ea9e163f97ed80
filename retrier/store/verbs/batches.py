"""Retry batches: reading them, and moving them by compare-and-set."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache, partial
from typing import Any

from sqlalchemy import (
    Connection,
    Select,
    Update,
    and_,
    bindparam,
    case,
    delete,
    or_,
    select,
    update,
)
from sqlalchemy.sql import ColumnElement

from retrier.domain.retry_batch import NEXT, RetryBatch, RetryBatchStatus
from retrier.store.database import Database
from retrier.store.lease import Fence, hold
from retrier.store.schema import retry_batch_now_forwarding, retry_batches, retry_operations
from retrier.store.sql_dialect import SqlDialect

batches = retry_batches.c

# Made once: SQLAlchemy takes longer to make a statement than to carry it out.
_ANY_STAGING = select(batches.batch_id).where(batches.status == RetryBatchStatus.STAGING).limit(1)
_DELETE = (
    delete(retry_batch_now_forwarding).where(
        retry_batch_now_forwarding.c.batch_id == bindparam("batch")
    ),
    delete(retry_batches).where(batches.batch_id == bindparam("batch")),
)


def is_due(now: ColumnElement[datetime] | datetime) -> ColumnElement[bool]:
    """Compare the time a batch waits for with this one.

    A batch that was changed in the future was changed before the database's clock was set back:
    it would wait for as long as that was, and every other batch behind it.
    """
    return or_(batches.not_before.is_(None), batches.not_before <= now, batches.modified_at > now)


def find_most_advanced(db: Database) -> RetryBatch | None:
    """Return the batch that is to be moved next, or None; one look, without a lock.

    The one the pointer names; else the next that may be staged, by priority, then age; else one
    in Marking, which at the top of a turn is an orphan. Raises DatabaseUnavailable.
    """
    return db.read(partial(_find_most_advanced, db))


def is_any_staging(db: Database) -> bool:
    """Say whether any batch is in Staging, also one that has to wait."""
    return db.read(lambda conn: conn.execute(_ANY_STAGING).first() is not None)


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
    written = {"status": to, "modified_at": now, **columns}
    moved = _move(tuple(sorted(written)))
    known = {"moved": batch_id, "source": source, **written}
    return conn.execute(moved, known).rowcount == 1


def delete_batch(conn: Connection, batch_id: str) -> None:
    """Delete a batch that is done or has nothing left, and the pointer if it names it."""
    for deleting in _DELETE:
        conn.execute(deleting, {"batch": batch_id})


def from_row(row: Mapping[str, Any]) -> RetryBatch:
    """Return a row of retry_batches as the domain's value."""
    values = {column.name: row[column.name] for column in batches}
    return RetryBatch(**{**values, "status": RetryBatchStatus(row["status"])})


def _find_most_advanced(db: Database, conn: Connection) -> RetryBatch | None:
    known = db.sql.tell(conn, timedelta(0))
    row = conn.execute(_most_advanced(db.sql), known).mappings().first()
    return from_row(dict(row)) if row is not None else None


@cache
def _most_advanced(sql: SqlDialect) -> Select[Any]:
    now, _ = sql.moments
    pointed = batches.batch_id.in_(select(retry_batch_now_forwarding.c.batch_id))
    staging = and_(batches.status == RetryBatchStatus.STAGING, is_due(now))
    return (
        select(retry_batches)
        .join(retry_operations, retry_operations.c.operation_id == batches.operation_id)
        .where(or_(pointed, staging, batches.status == RetryBatchStatus.MARKING))
        .order_by(
            case((pointed, 0), (staging, 1), else_=2),
            retry_operations.c.priority,
            batches.created_at,
            batches.batch_id,
        )
        .limit(1)
    )


@cache
def _move(columns: Sequence[str]) -> Update:
    return (
        update(retry_batches)
        .where(batches.batch_id == bindparam("moved"), batches.status == bindparam("source"))
        .values({batches[name]: bindparam(name, type_=batches[name].type) for name in columns})
    )
