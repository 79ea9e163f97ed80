"""Steering operations: paused, resumed and cancelled by a person, or given another rate."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import assert_never

from sqlalchemy import ColumnElement, case, exists, or_, select

from retrier.domain.identity import canonical, is_guid
from retrier.domain.retry_batch import RetryBatchStatus
from retrier.domain.retry_operation import (
    CanaryState,
    Cancel,
    Order,
    Pause,
    Resume,
    RetryOperation,
    RetryOperationState,
    SetRate,
    Steered,
    SteeringRefusal,
    is_done,
    refuse,
)
from retrier.store.engine.database import writing
from retrier.store.engine.transaction import Transaction
from retrier.store.queries.operations import operation_from_row, with_canaries
from retrier.store.schema import retry_batches, retry_operations
from retrier.store.tables import event_log
from retrier.store.tables import retry_operations as operations
from retrier.store.tables.event_log import Entry

columns = retry_operations.c


@writing
def steer_operation(
    tx: Transaction, operation_id: str, orders: Sequence[Order], who: str
) -> Steered | SteeringRefusal:
    """Carry out these orders at an operation, or none of them, and wake the processor.

    One transaction. An order that is carried out already changes nothing and is no mistake: the
    first answer may have been lost. Raises DatabaseUnavailable.
    """
    key = canonical(operation_id) if is_guid(operation_id) else None
    row = tx.execute(with_canaries().where(columns.operation_id == key)).mappings().first()
    if row is None:
        return SteeringRefusal.UNKNOWN
    operation = operation_from_row(dict(row))
    asked, standing = operation.cancel_asked, operation.is_standing
    for order in orders:
        why = refuse(order, operation.state, cancel_asked=asked, standing=standing)
        if why is not None:
            return why
    due = [order for order in orders if not _is_done(order, operation, tx.now)]
    if due:
        # Only if it is in the state that was read. Raises ConcurrentChange if it is not.
        values = {name: value for order in due for name, value in _find_values(order, operation)}
        operations.change(tx, operation.operation_id, {operation.state}, values)
        event_log.append(tx, [_entry(order, operation, who) for order in due])
        tx.sql.announce_request(tx.conn)
    return Steered(operation_id=operation.operation_id, changed=bool(due))


def _is_done(order: Order, operation: RetryOperation, now: datetime) -> bool:
    asked, due = operation.cancel_asked, operation.next_cut
    if isinstance(order, SetRate) and due is not None and due > now + _LONGEST_PACE:
        # The clock was set back, or the rate was very low: the same rate again frees it.
        return False
    return is_done(order, operation.state, cancel_asked=asked, rate=operation.rate)


_LONGEST_PACE = timedelta(seconds=2)
"""Longer than any rate lets a cut wait."""


def _find_values(order: Order, operation: RetryOperation) -> Iterator[tuple[str, object]]:
    canary = operation.canary and operation.canary.state
    match order:
        case Pause():
            yield "state", RetryOperationState.PAUSED
        case Resume():
            yield "state", _where_it_stood()
            if canary is CanaryState.FAILED:
                # A person has decided: what came back is no reason to stand still any more.
                yield "reason", None
        case Cancel():
            yield "cancel_asked", True
            if canary is CanaryState.FAILED:
                yield "reason", None
        case SetRate(rate):
            yield "rate", rate
            if canary is not CanaryState.WAITING:
                # The next cut does not wait until it is due by the old rate.
                yield "next_cut", None
        case _ as never:
            assert_never(never)


def _where_it_stood() -> ColumnElement[str]:
    """Return the open state of an operation that is resumed.

    Not *waiting* if a batch was opened: a batch of a waiting operation would be a fault.
    """
    batches = retry_batches.c
    forwarding = exists(select(batches.batch_id)).where(
        batches.operation_id == columns.operation_id,
        batches.status == RetryBatchStatus.FORWARDING,
    )
    return case(
        (columns.started_at.is_(None), RetryOperationState.WAITING.value),
        (
            or_(columns.forwarded + columns.failed > 0, forwarding),
            RetryOperationState.FORWARDING.value,
        ),
        else_=RetryOperationState.PREPARING.value,
    )


def _entry(order: Order, operation: RetryOperation, who: str) -> Entry:
    kind, words = _told(order)
    text = f"{operation.originator}: {words}"
    return Entry(kind=kind, text=text, who=who, operation_id=operation.operation_id)


def _told(order: Order) -> tuple[str, str]:
    match order:
        case Pause():
            return "operation_paused", "paused"
        case Resume():
            return "operation_resumed", "goes on"
        case Cancel():
            return "cancel_asked", "its end was asked for"
        case SetRate(None):
            return "operation_rate", "its rate is not limited any more"
        case SetRate(rate):
            return "operation_rate", f"{rate} messages a second at most"
        case _ as never:
            assert_never(never)
