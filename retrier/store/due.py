"""Whether the processor has anything to do: a cheap look, without a lock."""

from functools import partial

from sqlalchemy import Connection, exists, or_, select

from retrier.domain.retry_batch import RetryBatchStatus
from retrier.domain.retry_operation import OPEN_STATES
from retrier.store.database import Database
from retrier.store.schema import retry_batches, retry_operations

batches = retry_batches.c
operations = retry_operations.c


def is_work_due(db: Database) -> bool:
    """Say whether an operation may be cut or a batch be moved now. Raises DatabaseUnavailable."""
    return db.read(partial(_is_due, db))


def _is_due(db: Database, conn: Connection) -> bool:
    now = db.sql.now(conn)
    batch = exists().where(
        or_(
            batches.status != RetryBatchStatus.STAGING,
            batches.not_before.is_(None),
            batches.not_before <= now,
        )
    )
    operation = exists().where(
        operations.state.in_(sorted(OPEN_STATES)),
        or_(operations.not_before.is_(None), operations.not_before <= now),
        ~exists().where(batches.operation_id == operations.operation_id),
    )
    return bool(conn.execute(select(or_(batch, operation))).scalar_one())
