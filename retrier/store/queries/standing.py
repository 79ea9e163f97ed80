"""How everything stands: the counts that a monitoring system asks for, on one view of the database."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from sqlalchemy import Connection, func, select

from retrier.domain.failed_message import FailedMessageStatus
from retrier.domain.retry_batch import RetryBatchStatus
from retrier.domain.retry_operation import RetryOperationState
from retrier.store.database import Database
from retrier.store.reading.ledger import Ledger, find_ledger
from retrier.store.reading.operations import is_alive
from retrier.store.schema import (
    failed_imports,
    failed_messages,
    processor_lease,
    retry_batches,
    retry_operations,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Counts by state; a state that nothing is in is missing.

    `operations` are those alive. `oldest_unresolved` is how long ago the unresolved message that
    waits longest has failed for the last time; None when nothing is unresolved. `epoch` is 0
    before there was a processor.
    """

    ledger: Ledger
    operations: Mapping[RetryOperationState, int]
    batches: Mapping[RetryBatchStatus, int]
    failed_imports: int
    oldest_unresolved: timedelta | None
    epoch: int


def read_standing(db: Database) -> Standing:
    """Return how everything stands. Raises DatabaseUnavailable."""
    return db.read(partial(_read, db))


def _read(db: Database, conn: Connection) -> Standing:
    operations = select(retry_operations.c.state, func.count()).where(is_alive())
    batches = select(retry_batches.c.status, func.count())
    epoch = conn.execute(select(processor_lease.c.epoch)).scalar_one_or_none()
    imports = select(func.count()).select_from(failed_imports)
    return Standing(
        ledger=find_ledger(conn),
        operations={
            RetryOperationState(state): number
            for state, number in conn.execute(operations.group_by(retry_operations.c.state))
        },
        batches={
            RetryBatchStatus(status): number
            for status, number in conn.execute(batches.group_by(retry_batches.c.status))
        },
        failed_imports=conn.execute(imports).scalar_one(),
        oldest_unresolved=_age_of_oldest(db, conn),
        epoch=epoch or 0,
    )


def _age_of_oldest(db: Database, conn: Connection) -> timedelta | None:
    unresolved = failed_messages.c.status == FailedMessageStatus.UNRESOLVED
    oldest = conn.execute(select(func.min(failed_messages.c.last_failure)).where(unresolved))
    last_failure: datetime | None = oldest.scalar_one()
    if last_failure is None:
        return None
    # A sender's clock may be ahead.
    return max(timedelta(0), db.sql.now(conn) - last_failure)
