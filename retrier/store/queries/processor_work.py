"""Who is the processor, and what the database says of its work."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import and_, case, func, select

from retrier.domain.processor_work import Queue
from retrier.domain.retry_batch import RetryBatch, RetryBatchStatus
from retrier.domain.retry_operation import OPEN_STATES, RetryOperation
from retrier.store.engine.database import reading
from retrier.store.engine.transaction import Transaction
from retrier.store.queries.batches import batch_from_row
from retrier.store.queries.next_batch import is_due
from retrier.store.queries.operations import is_alive, operation_from_row, with_canaries
from retrier.store.queries.schedules import find_schedule
from retrier.store.queries.waits import find_obstacles
from retrier.store.schema import (
    processor_lease,
    retry_batch_now_forwarding,
    retry_batches,
    retry_operations,
)

SHOWN_OPERATIONS = 50
"""Operations that are shown, in the order of their cuts; there may be any number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Processor:
    """The lease; nobody holds it if `is_held` is false. `forwarding` is the batch in Forwarding."""

    is_held: bool
    epoch: int
    session_id: str | None
    host: str | None
    pid: int | None
    acquired_at: datetime | None
    renewed_at: datetime | None
    expires_at: datetime | None
    forwarding: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorState:
    """The processor (None before the first one), and what there is to do."""

    processor: Processor | None
    queue: Queue


@reading
def find_processor(tx: Transaction) -> ProcessorState:
    """Return the lease and the work as they are now. Raises DatabaseUnavailable."""
    operations = _find_operations(tx)
    queue = Queue(
        batches=_find_batches(tx),
        operations=operations,
        at=tx.now,
        schedule=find_schedule(tx) if any(each.is_standing for each in operations) else None,
        obstacles=find_obstacles(tx),
    )
    return ProcessorState(processor=_find_holder(tx), queue=queue)


def _find_holder(tx: Transaction) -> Processor | None:
    row = tx.execute(select(processor_lease)).mappings().one_or_none()
    if row is None:
        return None
    names = "epoch session_id host pid acquired_at renewed_at expires_at"
    pointer = select(retry_batch_now_forwarding.c.batch_id)
    return Processor(
        **{name: row[name] for name in names.split()},
        is_held=row["session_id"] is not None and row["expires_at"] > tx.now,
        forwarding=tx.execute(pointer).scalar_one_or_none(),
    )


def _find_batches(tx: Transaction) -> tuple[RetryBatch, ...]:
    """Return the batches alive as they are moved: Forwarding, what may be staged, the others."""
    batches = retry_batches.c
    due = case((is_due(tx.now), 0), else_=1)
    stage = case(
        (batches.status == RetryBatchStatus.FORWARDING, 0),
        (batches.status == RetryBatchStatus.STAGING, 1 + 2 * due),
        else_=2,
    )
    query = (
        select(retry_batches)
        .join(retry_operations, retry_operations.c.operation_id == batches.operation_id)
        .order_by(stage, retry_operations.c.priority, batches.created_at, batches.batch_id)
    )
    return tuple(batch_from_row(dict(row)) for row in tx.execute(query).mappings())


def _find_operations(tx: Transaction) -> tuple[RetryOperation, ...]:
    """Return the operations that are not over: those that may be cut now come first."""
    operations = retry_operations.c
    may_be_cut = and_(
        operations.state.in_(sorted(OPEN_STATES)),
        operations.passed_over.is_(False),
        func.coalesce(operations.not_before, tx.now) <= tx.now,
        func.coalesce(operations.next_cut, tx.now) <= tx.now,
    )
    query = (
        with_canaries()
        .where(is_alive())
        .order_by(
            case((may_be_cut, 0), else_=1),
            operations.priority,
            func.coalesce(operations.last_cut, operations.created_at),
            operations.operation_id,
        )
        .limit(SHOWN_OPERATIONS)
    )
    return tuple(operation_from_row(dict(row)) for row in tx.execute(query).mappings())
