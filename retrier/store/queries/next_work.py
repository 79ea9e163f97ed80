"""What the processor does next: the most advanced batch, the next operation, and what is due."""

from datetime import datetime, timedelta
from functools import cache
from typing import Any

from sqlalchemy import Select, and_, case, exists, func, or_, select, union_all
from sqlalchemy.sql import ColumnElement

from retrier.domain.retry_batch import RetryBatch, RetryBatchStatus
from retrier.domain.retry_operation import OPEN_STATES, RetryOperation
from retrier.store.engine.database import reading
from retrier.store.engine.sql_dialect import SqlDialect
from retrier.store.engine.transaction import Transaction
from retrier.store.queries.batches import batch_from_row
from retrier.store.queries.operations import operation_from_row
from retrier.store.schema import retry_batch_now_forwarding, retry_batches, retry_operations

batches = retry_batches.c

# Made once: SQLAlchemy takes longer to make a statement than to execute it.
_ANY_STAGING = select(batches.batch_id).where(batches.status == RetryBatchStatus.STAGING).limit(1)


def is_due(now: ColumnElement[datetime] | datetime) -> ColumnElement[bool]:
    """Return the condition that a batch need not wait any longer at the time `now`.

    If `modified_at` is in the future, the database's clock was set back: without that condition
    the batch would wait that much longer, and every other batch behind it.
    """
    return or_(batches.not_before.is_(None), batches.not_before <= now, batches.modified_at > now)


@reading
def find_most_advanced(tx: Transaction) -> RetryBatch | None:
    """Return the batch that is to be moved next, or None; reads once, without a lock.

    The one the pointer names; else the next that may be staged, by priority, then age; else one
    in Marking, which is an orphan at the beginning of a turn. Raises DatabaseUnavailable.
    """
    known = tx.sql.tell(tx.conn, timedelta(0))
    row = tx.execute(_most_advanced(tx.sql), known).mappings().first()
    return batch_from_row(dict(row)) if row is not None else None


@reading
def is_any_staging(tx: Transaction) -> bool:
    """Return whether any batch is in Staging, including one that has to wait."""
    return tx.execute(_ANY_STAGING).first() is not None


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


operations = retry_operations.c


def find_next(tx: Transaction) -> RetryOperation | None:
    """Return the operation that is to be cut next; None when nothing may be cut."""
    row = tx.execute(_next(tx.sql), tx.sql.tell(tx.conn, timedelta(0))).mappings().first()
    return None if row is None else operation_from_row(dict(row))


@cache
def _next(sql: SqlDialect) -> Select[Any]:
    now, _ = sql.moments
    waiting = retry_batches.alias()
    return (
        select(retry_operations)
        .where(
            operations.state.in_(sorted(OPEN_STATES)),
            or_(operations.not_before.is_(None), operations.not_before <= now),
            ~exists().where(retry_batches.c.operation_id == operations.operation_id),
            # No cut while a batch waits in Staging: with the broker down, more claims would only
            # fix the order of operations, and neither priority nor cancelling could change it.
            ~exists().where(waiting.c.status == RetryBatchStatus.STAGING),
        )
        .order_by(
            operations.priority,
            func.coalesce(operations.last_cut, operations.created_at),
            operations.operation_id,
        )
        .limit(1)
    )


@reading
def is_work_due(tx: Transaction) -> bool:
    """Return whether an operation can be cut or a batch moved now. Raises DatabaseUnavailable."""
    now = tx.now
    batch = exists().where(or_(batches.status != RetryBatchStatus.STAGING, is_due(now)))
    operation = exists().where(
        operations.state.in_(sorted(OPEN_STATES)),
        or_(operations.not_before.is_(None), operations.not_before <= now),
        ~exists().where(batches.operation_id == operations.operation_id),
    )
    return bool(tx.execute(select(or_(batch, operation))).scalar_one())


@reading
def time_until_due(tx: Transaction) -> timedelta | None:
    """Return the time until the first batch or operation that waits (`not_before`) may go on.

    By the database's clock; None when none waits. Raises DatabaseUnavailable.
    """
    waiting = union_all(
        select(batches.not_before),
        select(operations.not_before).where(operations.state.in_(sorted(OPEN_STATES))),
    ).subquery()
    query = select(func.min(waiting.c.not_before)).where(waiting.c.not_before > tx.now)
    due = tx.execute(query).scalar_one()
    return None if due is None else due - tx.now
