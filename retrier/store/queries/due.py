"""Whether and when the processor has anything to do: cheap looks, without a lock."""

from datetime import timedelta
from functools import partial

from sqlalchemy import Connection, exists, func, or_, select, union_all

from retrier.domain.retry_batch import RetryBatchStatus
from retrier.domain.retry_operation import OPEN_STATES
from retrier.store.batches import is_due
from retrier.store.database import Database
from retrier.store.schema import retry_batches, retry_operations

batches = retry_batches.c
operations = retry_operations.c


def is_work_due(db: Database) -> bool:
    """Say whether an operation may be cut or a batch be moved now. Raises DatabaseUnavailable."""
    return db.read(partial(_is_due, db))


def time_until_due(db: Database) -> timedelta | None:
    """Return how long until a batch or operation that waits for a time of its own may go on.

    By the database's clock; None when none waits. Raises DatabaseUnavailable.
    """
    return db.read(partial(_time_until_due, db))


def _time_until_due(db: Database, conn: Connection) -> timedelta | None:
    waiting = union_all(
        select(batches.not_before),
        select(operations.not_before).where(operations.state.in_(sorted(OPEN_STATES))),
    ).subquery()
    now = db.sql.now(conn)
    query = select(func.min(waiting.c.not_before)).where(waiting.c.not_before > now)
    due = conn.execute(query).scalar_one()
    return None if due is None else due - now


def _is_due(db: Database, conn: Connection) -> bool:
    now = db.sql.now(conn)
    batch = exists().where(or_(batches.status != RetryBatchStatus.STAGING, is_due(now)))
    operation = exists().where(
        operations.state.in_(sorted(OPEN_STATES)),
        or_(operations.not_before.is_(None), operations.not_before <= now),
        ~exists().where(batches.operation_id == operations.operation_id),
    )
    return bool(conn.execute(select(or_(batch, operation))).scalar_one())
