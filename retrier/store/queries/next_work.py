"""What the processor does next: the operation to be cut, and when something is due."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from sqlalchemy import Select, and_, case, exists, func, or_, select, union_all
from sqlalchemy.sql import ColumnElement

from retrier.domain.retry_batch import RetryBatchStatus
from retrier.domain.retry_operation import (
    ALIVE,
    OPEN_STATES,
    STANDING_OPERATION,
    Priority,
    RetryOperation,
    RetryOperationState,
)
from retrier.store.engine.database import reading
from retrier.store.engine.sql_dialect import SqlDialect
from retrier.store.engine.transaction import Transaction
from retrier.store.queries.breakers import (
    ANY_NOT_CLOSED,
    DUE,
    NOT_CLOSED,
    TRIAL_ENDED,
)
from retrier.store.queries.due import FIRST, IS_STANDING_MADE
from retrier.store.queries.next_batch import UNSTAMPED, is_due
from retrier.store.queries.operations import operation_from_row, with_canaries
from retrier.store.schema import (
    failed_message_retries,
    retry_batches,
    retry_operations,
)

batches = retry_batches.c
claims = failed_message_retries.c

operations = retry_operations.c


def find_next(tx: Transaction, *, bulk_first: bool = False) -> RetryOperation | None:
    """Return the operation that is to be cut next; None when nothing may be cut.

    With `bulk_first`, bulk operations go before what is due by policy.
    """
    known = tx.sql.tell(tx.conn, timedelta(0))
    row = tx.execute(_next(tx.sql, bulk_first=bulk_first), known).mappings().first()
    return None if row is None else operation_from_row(dict(row))


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """Whether there is an operation to cut, or to make, and a breaker that is not closed."""

    may_cut: bool
    may_hold: bool


@reading
def look_ahead(tx: Transaction) -> Outlook:
    """Look without a lock what the next cut would meet. Raises DatabaseUnavailable."""
    next_one = _next(tx.sql, bulk_first=False).with_only_columns(operations.operation_id)
    missing = and_(~IS_STANDING_MADE, FIRST.is_not(None))
    query = select(or_(exists(next_one), missing), ANY_NOT_CLOSED)
    row = tx.execute(query, tx.sql.tell(tx.conn, timedelta(0))).one()
    return Outlook(may_cut=bool(row[0]), may_hold=bool(row[1]))


def _may_be_cut(now: ColumnElement[datetime] | datetime) -> ColumnElement[bool]:
    """Return the condition that an operation is open and need not wait any longer.

    The standing one waits until something is due; in another state it is cut, in vain perhaps. If `modified_at` is in the future, the clock was set back; see `is_due`.
    """
    return and_(
        operations.state.in_(sorted(OPEN_STATES)),
        or_(
            operations.passed_over.is_(False),
            operations.look_again_at <= now,
            and_(operations.look_again_at.is_not(None), operations.modified_at > now),
        ),
        or_(operations.not_before.is_(None), operations.not_before <= now),
        or_(
            operations.next_cut.is_(None),
            operations.next_cut <= now,
            operations.modified_at > now,
        ),
        or_(
            operations.operation_id != STANDING_OPERATION,
            operations.state != RetryOperationState.WAITING,
            now >= FIRST,
        ),
    )


def _has_no_batch() -> ColumnElement[bool]:
    return ~exists().where(retry_batches.c.operation_id == operations.operation_id)


_TO_BE_CANCELLED = and_(operations.cancel_asked, operations.state.in_(sorted(ALIVE)))


@cache
def _next(sql: SqlDialect, *, bulk_first: bool) -> Select[Any]:
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
            case(
                (operations.priority == Priority.SMALL, 0),
                (operations.priority == (Priority.BULK if bulk_first else Priority.POLICY), 1),
                else_=2,
            ),
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
        operations.operation_id == batches.operation_id, operations.cancel_asked, UNSTAMPED
    )
    batch = exists().where(or_(batches.status != RetryBatchStatus.STAGING, is_due(now), cancelled))
    operation = exists().where(or_(_TO_BE_CANCELLED, _may_be_cut(now)), _has_no_batch())
    return bool(tx.execute(select(or_(batch, operation, TRIAL_ENDED))).scalar_one())


@reading
def time_until_due(tx: Transaction) -> timedelta | None:
    """Return the time until the first batch, operation, scheduled message or breaker may go on.

    By the database's clock; None when none waits. Zero if one has become due since the caller
    looked in vain: a rated operation waits for a fifth of a second, and one missed is one lost.
    Raises DatabaseUnavailable.
    """
    # Read first: `find_next` has a clock of its own. What falls due between the two would else be
    # neither found nor waited for.
    now = tx.now
    if find_next(tx) is not None:
        return timedelta(0)
    is_open = operations.state.in_(sorted(OPEN_STATES))
    # A breaker that is due already has become so since the caller looked at it.
    waiting = union_all(
        select(batches.not_before).where(batches.not_before > now),
        select(operations.not_before).where(is_open, operations.not_before > now),
        select(operations.next_cut).where(is_open, operations.next_cut > now),
        select(operations.look_again_at).where(is_open, operations.look_again_at > now),
        select(case((now < FIRST, FIRST))),
        select(DUE).where(NOT_CLOSED),
    ).subquery()
    due = tx.execute(select(func.min(waiting.c.not_before))).scalar_one()
    return None if due is None else max(timedelta(0), due - now)
