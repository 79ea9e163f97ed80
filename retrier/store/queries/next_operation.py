"""The operation whose turn it is to be cut."""

from datetime import timedelta
from functools import cache
from typing import Any

from sqlalchemy import Select, exists, func, or_, select

from retrier.domain.retry_batch import RetryBatchStatus
from retrier.domain.retry_operation import OPEN_STATES, RetryOperation
from retrier.store.engine.sql_dialect import SqlDialect
from retrier.store.engine.transaction import Transaction
from retrier.store.queries.operations import from_row
from retrier.store.schema import retry_batches, retry_operations

operations = retry_operations.c


def find_next(tx: Transaction) -> RetryOperation | None:
    """Return it; None when nothing may be cut."""
    row = tx.execute(_next(tx.sql), tx.sql.tell(tx.conn, timedelta(0))).mappings().first()
    return None if row is None else from_row(dict(row))


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
            # With the broker down, claiming on would only take priority, cancel and canary away
            # from the operations.
            ~exists().where(waiting.c.status == RetryBatchStatus.STAGING),
        )
        .order_by(
            operations.priority,
            func.coalesce(operations.last_cut, operations.created_at),
            operations.operation_id,
        )
        .limit(1)
    )
