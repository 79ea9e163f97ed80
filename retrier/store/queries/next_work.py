"""What the processor does next: the most advanced batch, the next operation, and what is due."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from sqlalchemy import Select, and_, case, exists, func, or_, select, union_all
from sqlalchemy.sql import ColumnElement

from retrier.domain.retry_batch import RetryBatch, RetryBatchStatus
from retrier.domain.retry_operation import ALIVE, OPEN_STATES, RetryOperation
from retrier.store.engine.database import reading
from retrier.store.engine.sql_dialect import SqlDialect
from retrier.store.engine.transaction import Transaction
from retrier.store.queries.batches import batch_from_row
from retrier.store.queries.operations import operation_from_row, with_canaries
from retrier.store.schema import (
    failed_message_retries,
    retry_batch_now_forwarding,
    retry_batches,
    retry_operations,
)

batches = retry_batches.c
claims = failed_message_retries.c

# Made once: SQLAlchemy takes longer to make a statement than to execute it.
_ANY_STAGING = select(batches.batch_id).where(batches.status == RetryBatchStatus.STAGING).limit(1)


def is_due(now: ColumnElement[datetime] | datetime) -> ColumnElement[bool]:
    """Return the condition that a batch need not wait any longer at the time `now`.

    If `modified_at` is in the future, the database's clock was set back: without that condition
    the batch would wait that much longer, and every other batch behind it.
    """
    return or_(batches.not_before.is_(None), batches.not_before <= now, batches.modified_at > now)


@dataclass(frozen=True, slots=True, kw_only=True)
class NextBatch:
    """The batch that is to be moved next, and whether its operation is to be cancelled."""

    batch: RetryBatch
    cancel_asked: bool


@reading
def find_most_advanced(tx: Transaction) -> NextBatch | None:
    """Return the batch that is to be moved next, or None; reads once, without a lock.

    The one the pointer names; else the next that may be staged, by priority, then age; else one
    in Marking, which is an orphan at the beginning of a turn. Raises DatabaseUnavailable.
    """
    known = tx.sql.tell(tx.conn, timedelta(0))
    row = tx.execute(_most_advanced(tx.sql), known).mappings().first()
    if row is None:
        return None
    return NextBatch(batch=batch_from_row(dict(row)), cancel_asked=row["cancel_asked"])


@reading
def is_any_staging(tx: Transaction) -> bool:
    """Return whether any batch is in Staging, including one that has to wait."""
    return tx.execute(_ANY_STAGING).first() is not None


_UNSTAMPED = exists().where(claims.batch_id == batches.batch_id, claims.sending_since.is_(None))
"""The condition that a batch has a message that was certainly not sent."""


@cache
def _most_advanced(sql: SqlDialect) -> Select[Any]:
    now, _ = sql.moments
    pointed = batches.batch_id.in_(select(retry_batch_now_forwarding.c.batch_id))
    # One that is to be cancelled need not wait for the broker, if there is something to release.
    cancelled = and_(retry_operations.c.cancel_asked, _UNSTAMPED)
    staging = and_(batches.status == RetryBatchStatus.STAGING, or_(is_due(now), cancelled))
    return (
        select(retry_batches, retry_operations.c.cancel_asked)
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


def _may_be_cut(now: ColumnElement[datetime] | datetime) -> ColumnElement[bool]:
    """Return the condition that an operation is open and need not wait any longer.

    If `modified_at` is in the future, the clock was set back; see `is_due`.
    """
    return and_(
        operations.state.in_(sorted(OPEN_STATES)),
        operations.passed_over.is_(False),
        or_(operations.not_before.is_(None), operations.not_before <= now),
        or_(
            operations.next_cut.is_(None),
            operations.next_cut <= now,
            operations.modified_at > now,
        ),
    )


def _has_no_batch() -> ColumnElement[bool]:
    return ~exists().where(retry_batches.c.operation_id == operations.operation_id)


_TO_BE_CANCELLED = and_(operations.cancel_asked, operations.state.in_(sorted(ALIVE)))


@cache
def _next(sql: SqlDialect) -> Select[Any]:
    now, _ = sql.moments
    waiting = retry_batches.alias()
    # No cut while a batch waits in Staging: with the broker down, more claims would only fix the
    # order of operations, and neither priority nor cancelling could change it.
    may_be_cut = and_(
        _may_be_cut(now), ~exists().where(waiting.c.status == RetryBatchStatus.STAGING)
    )
    return (
        with_canaries()
        .where(or_(_TO_BE_CANCELLED, may_be_cut), _has_no_batch())
        .order_by(
            operations.cancel_asked.desc(),
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
    # One that waits for the broker is to be released at once if its operation is cancelled.
    cancelled = exists().where(
        operations.operation_id == batches.operation_id, operations.cancel_asked, _UNSTAMPED
    )
    batch = exists().where(or_(batches.status != RetryBatchStatus.STAGING, is_due(now), cancelled))
    operation = exists().where(or_(_TO_BE_CANCELLED, _may_be_cut(now)), _has_no_batch())
    return bool(tx.execute(select(or_(batch, operation))).scalar_one())


@reading
def time_until_due(tx: Transaction) -> timedelta | None:
    """Return the time until the first batch or operation that waits may go on.

    By the database's clock; None when none waits. Zero if one has become due since the caller
    looked in vain: a rated operation waits for a fifth of a second, and one missed is one lost.
    Raises DatabaseUnavailable.
    """
    if find_next(tx) is not None:
        return timedelta(0)
    is_open = operations.state.in_(sorted(OPEN_STATES))
    waiting = union_all(
        select(batches.not_before),
        select(operations.not_before).where(is_open),
        select(operations.next_cut).where(is_open),
    ).subquery()
    query = select(func.min(waiting.c.not_before)).where(waiting.c.not_before > tx.now)
    due = tx.execute(query).scalar_one()
    return None if due is None else due - tx.now
