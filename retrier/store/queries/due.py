"""Whether and when the processor has anything to do: cheap looks, without a lock."""

from datetime import timedelta

from sqlalchemy import exists, func, or_, select, union_all

from retrier.domain.retry_batch import RetryBatchStatus
from retrier.domain.retry_operation import OPEN_STATES
from retrier.store.engine.transaction import Transaction
from retrier.store.engine.verb import reading
from retrier.store.queries.batch_order import is_due
from retrier.store.schema import retry_batches, retry_operations

batches = retry_batches.c
operations = retry_operations.c


@reading
def is_work_due(tx: Transaction) -> bool:
    """Say whether an operation may be cut or a batch be moved now. Raises DatabaseUnavailable."""
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
    """Return how long until a batch or operation that waits for a time of its own may go on.

    By the database's clock; None when none waits. Raises DatabaseUnavailable.
    """
    waiting = union_all(
        select(batches.not_before),
        select(operations.not_before).where(operations.state.in_(sorted(OPEN_STATES))),
    ).subquery()
    query = select(func.min(waiting.c.not_before)).where(waiting.c.not_before > tx.now)
    due = tx.execute(query).scalar_one()
    return None if due is None else due - tx.now
