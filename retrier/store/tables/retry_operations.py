"""Retry operations (`retry_operations`): added, cut, counted, completed."""

from collections import Counter
from collections.abc import Iterable, Sequence

from sqlalchemy import ColumnElement, Update, bindparam, case, delete, func, select, update

from retrier.domain.retry_operation import OPEN_STATES, RetryOperation, RetryOperationState
from retrier.store.engine.transaction import ConcurrentChange, Rows, Transaction
from retrier.store.schema import retry_operations
from retrier.store.schema.types import UtcTime
from retrier.store.tables.event_log import short

operations = retry_operations.c

_NOTHING = "nothing to retry: no unresolved message matched when it was asked for"
_KEY = operations.operation_id == bindparam("operation")
_NOW = bindparam("now", type_=UtcTime)
# Made once: SQLAlchemy takes longer to make a statement than to execute it.
_BEGIN_CUT = (
    update(retry_operations)
    .where(_KEY, operations.state == bindparam("before"), operations.floor == bindparam("from"))
    .values(
        state=bindparam("after"),
        last_cut=_NOW,
        started_at=func.coalesce(operations.started_at, _NOW),
        modified_at=_NOW,
    )
)
_NOTE_CUT = (
    update(retry_operations)
    .where(_KEY)
    .values(
        floor=bindparam("to"),
        skipped=operations.skipped + bindparam("more_skipped"),
        batches=operations.batches + bindparam("more_batches"),
        modified_at=_NOW,
    )
)
_COMPLETE = (
    update(retry_operations)
    .where(
        _KEY,
        operations.state.in_([RetryOperationState.PREPARING, RetryOperationState.FORWARDING]),
    )
    .values(
        state=RetryOperationState.COMPLETED,
        skipped=operations.total - operations.forwarded - operations.failed,
        reason=case((operations.total == 0, _NOTHING), else_=operations.reason),
        completed_at=_NOW,
        modified_at=_NOW,
    )
)
_ON_ITS_WAY = (
    update(retry_operations)
    .where(_KEY, operations.state == RetryOperationState.PREPARING)
    .values(state=RetryOperationState.FORWARDING, modified_at=_NOW)
)
_COUNT_FORWARDED = (
    update(retry_operations)
    .where(_KEY)
    .values(forwarded=operations.forwarded + bindparam("number"))
)


def add(tx: Transaction, row: dict[str, object]) -> bool:
    """Add an operation; false if another one has its idempotency key."""
    inserted = tx.execute(
        tx.sql.insert(retry_operations)
        .values(created_at=tx.now, modified_at=tx.now, **row)
        .on_conflict_do_nothing(index_elements=["idempotency_key"])
        .returning(operations.operation_id)
    )
    return inserted.first() is not None


def begin_cut(tx: Transaction, operation: RetryOperation) -> None:
    """Begin a cut, if state and floor of the operation are still as they were read.

    Raises ConcurrentChange if not, or if it is not open: it was paused or cancelled between the
    look and the cut, and must not be cut.
    """
    waiting = operation.state is RetryOperationState.WAITING
    begun = tx.execute(
        _BEGIN_CUT,
        {
            "operation": operation.operation_id,
            "before": operation.state,
            "after": RetryOperationState.PREPARING if waiting else operation.state,
            "from": operation.floor,
            "now": tx.now,
        },
    )
    if operation.state not in OPEN_STATES or begun.rowcount != 1:
        raise ConcurrentChange


def note_cut(tx: Transaction, operation_id: str, *, floor: int, skipped: int, batches: int) -> None:
    """Move the floor, and count the skipped ids and the batch, if there is one."""
    known = {"operation": operation_id, "to": floor, "now": tx.now}
    tx.execute(_NOTE_CUT, {**known, "more_skipped": skipped, "more_batches": batches})


def complete(tx: Transaction, operation_id: str) -> None:
    """Complete an operation whose last cut was empty and that has no batch left.

    What is neither forwarded nor failed was skipped: archived, resolved, claimed by another
    operation or failed again before its turn.
    """
    tx.execute(_COMPLETE, {"operation": operation_id, "now": tx.now})


def go_on_its_way(tx: Transaction, operation_id: str) -> None:
    """Move an operation from Preparing to Forwarding; its first batch does it."""
    tx.execute(_ON_ITS_WAY, {"operation": operation_id, "now": tx.now})


def count_forwarded(tx: Transaction, operation_ids: Iterable[str]) -> None:
    """Count a forwarded message for each id; an id given twice counts two."""
    rows: Rows = [
        {"operation": operation_id, "number": number}
        for operation_id, number in sorted(Counter(operation_ids).items())
    ]
    for row in rows:
        tx.execute(_COUNT_FORWARDED, row)


def count_failed(tx: Transaction, operation_id: str, number: int, reason: str) -> None:
    """Count messages that could not be sent, and keep why the last of them could not."""
    more = {"failed": operations.failed + number, "reason": short(reason), "modified_at": tx.now}
    tx.execute(_of(operation_id).values(more))


def count_skipped(tx: Transaction, operation_id: str, number: int) -> None:
    """Count messages that were taken out of the operation."""
    more = {"skipped": operations.skipped + number, "modified_at": tx.now}
    tx.execute(_of(operation_id).values(more))


def acknowledge(tx: Transaction, operation_ids: Sequence[str]) -> Sequence[str]:
    """Note that a person has seen that these are over; return those that nobody had seen."""
    those = tx.sql.member(operations.operation_id, sorted(operation_ids))
    return (
        tx.execute(
            update(retry_operations)
            .where(
                those, operations.completed_at.is_not(None), operations.acknowledged_at.is_(None)
            )
            .values(acknowledged_at=tx.now)
            .returning(operations.operation_id)
        )
        .scalars()
        .all()
    )


def delete_old(tx: Transaction, conditions: Iterable[ColumnElement[bool]], most: int) -> int:
    """Delete those that meet conditions, the oldest first; return how many.

    The ids that they named go with them (foreign key). So may the idempotency key be used again.
    """
    query = select(operations.operation_id).where(*conditions).order_by(operations.completed_at)
    ids = tx.execute(query.limit(most).with_for_update(skip_locked=True)).scalars().all()
    if ids:
        tx.execute(delete(retry_operations).where(tx.sql.member(operations.operation_id, ids)))
    return len(ids)


def _of(operation_id: str) -> Update:
    return update(retry_operations).where(operations.operation_id == operation_id)
