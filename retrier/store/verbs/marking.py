"""Marking: the next batch is opened, takes its claims off an operation, and moves to Staging.

Each verb commits by itself. A crash between them leaves a batch in Marking, which is adopted.
"""

from dataclasses import dataclass
from datetime import timedelta
from functools import cache, partial
from typing import Any
from uuid import uuid4

from sqlalchemy import Connection, Select, bindparam, exists, func, or_, select, update

from retrier.domain.retry_batch import RetryBatchStatus
from retrier.domain.retry_operation import OPEN_STATES, RetryOperation, RetryOperationState
from retrier.store import batches, cuts, operations
from retrier.store.claimed_cuts import take_next
from retrier.store.database import Database
from retrier.store.lease import Fence, hold
from retrier.store.schema import (
    failed_message_retries,
    retry_batches,
    retry_operations,
)
from retrier.store.schema.types import UtcTime
from retrier.store.sql_dialect import SqlDialect

ops = retry_operations.c
claims = failed_message_retries.c

# Made once: SQLAlchemy takes longer to make a statement than to carry it out.
_NOW = bindparam("now", type_=UtcTime)
_BEGIN_CUT = (
    update(retry_operations)
    .where(ops.operation_id == bindparam("operation"), ops.state == bindparam("before"))
    .values(
        state=bindparam("after"),
        last_cut=_NOW,
        started_at=func.coalesce(ops.started_at, _NOW),
        modified_at=_NOW,
    )
)
_OPEN_BATCH = retry_batches.insert()
_SIZE_BATCH = (
    update(retry_batches)
    .where(retry_batches.c.batch_id == bindparam("batch"))
    .values(initial_size=bindparam("size"), modified_at=_NOW)
)
_NOTE_CUT = (
    update(retry_operations)
    .where(ops.operation_id == bindparam("operation"))
    .values(
        floor=bindparam("to"),
        skipped=ops.skipped + bindparam("more_skipped"),
        batches=ops.batches + bindparam("more_batches"),
        modified_at=_NOW,
    )
)
_COUNT_CLAIMS = (
    select(func.count())
    .select_from(failed_message_retries)
    .where(claims.batch_id == bindparam("batch"))
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedBatch:
    """A batch in Marking, and the operation it is cut off."""

    batch_id: str
    operation: RetryOperation


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkedBatch:
    """What a cut came to; `completed` says that it found nothing and closed the operation."""

    claimed: int
    skipped: int
    completed: bool


def open_batch(db: Database, fence: Fence, session_id: str) -> OpenedBatch | None:
    """Open a batch for the operation whose turn it is; None when nothing may be cut.

    By priority, and among equals the operation cut longest ago: a bulk of a million starves
    nobody. Nothing is cut while a batch waits in Staging. Raises LeaseLost, DatabaseUnavailable.
    """
    # A look without any lock first: a processor with nothing to do writes nothing.
    if not db.read(partial(_is_any_open, db)):
        return None
    return db.transact(partial(_open, db, fence, session_id))


def claim_messages(db: Database, fence: Fence, opened: OpenedBatch) -> MarkedBatch:
    """Take the batch's claims, move the operation's floor, and count what was skipped.

    One transaction: the floor never passes a message that was neither claimed nor left to
    somebody else. Raises LeaseLost, DatabaseUnavailable.
    """
    return db.transact(partial(_claim, db, fence, opened))


def move_to_staging(db: Database, fence: Fence, batch_id: str) -> int:
    """Move a batch from Marking to Staging with the claims it has; delete it if it has none.

    The same step ends marking and adopts an orphan. Returns how many claims it has. Raises
    LeaseLost, DatabaseUnavailable.
    """
    return db.transact(partial(_move_to_staging, db, fence, batch_id))


def _is_any_open(db: Database, conn: Connection) -> bool:
    return conn.execute(_next(db.sql), db.sql.tell(conn, timedelta(0))).first() is not None


def _open(db: Database, fence: Fence, session_id: str, conn: Connection) -> OpenedBatch | None:
    now = hold(db, conn, fence)
    row = conn.execute(_next(db.sql), db.sql.tell(conn, timedelta(0))).mappings().first()
    if row is None:
        return None
    operation = operations.from_row(dict(row))
    waiting = operation.state is RetryOperationState.WAITING
    conn.execute(
        _BEGIN_CUT,
        {
            "operation": operation.operation_id,
            "before": operation.state,
            "after": RetryOperationState.PREPARING if waiting else operation.state,
            "now": now,
        },
    )
    batch_id = str(uuid4())
    conn.execute(
        _OPEN_BATCH,
        {
            "batch_id": batch_id,
            "operation_id": operation.operation_id,
            "session_id": session_id,
            "status": RetryBatchStatus.MARKING,
            "initial_size": 0,
            "stage_attempts": 0,
            "created_at": now,
            "modified_at": now,
        },
    )
    return OpenedBatch(batch_id=batch_id, operation=operation)


@cache
def _next(sql: SqlDialect) -> Select[Any]:
    now, _ = sql.moments
    waiting = retry_batches.alias()
    return (
        select(retry_operations)
        .where(
            ops.state.in_(sorted(OPEN_STATES)),
            or_(ops.not_before.is_(None), ops.not_before <= now),
            ~exists().where(retry_batches.c.operation_id == ops.operation_id),
            # With the broker down, claiming on would only take priority, cancel and canary away
            # from the operations.
            ~exists().where(waiting.c.status == RetryBatchStatus.STAGING),
        )
        .order_by(ops.priority, func.coalesce(ops.last_cut, ops.created_at), ops.operation_id)
        .limit(1)
    )


def _claim(db: Database, fence: Fence, opened: OpenedBatch, conn: Connection) -> MarkedBatch:
    now = hold(db, conn, fence)
    operation = opened.operation
    cut = take_next(db, conn, opened.batch_id, operation)
    conn.execute(_SIZE_BATCH, {"batch": opened.batch_id, "size": cut.claimed, "now": now})
    conn.execute(
        _NOTE_CUT,
        {
            "operation": operation.operation_id,
            "to": cut.floor,
            "more_skipped": len(cut.skipped),
            "more_batches": 1 if cut.claimed else 0,
            "now": now,
        },
    )
    cuts.note_skipped(conn, operation, cut.skipped, now)
    if cut.is_empty:
        batches.delete_batch(conn, opened.batch_id)
        operations.complete(conn, operation.operation_id, now)
    return MarkedBatch(claimed=cut.claimed, skipped=len(cut.skipped), completed=cut.is_empty)


def _move_to_staging(db: Database, fence: Fence, batch_id: str, conn: Connection) -> int:
    now = hold(db, conn, fence)
    size = conn.execute(_COUNT_CLAIMS, {"batch": batch_id}).scalar_one()
    if size:
        batches.move(conn, batch_id, RetryBatchStatus.STAGING, now, initial_size=size)
    else:
        batches.delete_batch(conn, batch_id)
    return size
