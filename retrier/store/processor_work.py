"""What the processor does next, what its next cut would take, and what people see of its work.

The next cut is looked at before the lease is held. What streams hold, what was written in the text
of a selection, what is behind a million messages: a look may read any number of rows. The cut
itself only takes what was found.
"""

from collections.abc import Sequence
from dataclasses import field, replace
from datetime import datetime, timedelta
from functools import cache
from operator import attrgetter
from typing import Any

from sqlalchemy import Select, and_, case, exists, false, func, or_, select, union_all
from sqlalchemy.sql import ColumnElement

from retrier.domain.breakers import Breaker, BreakerRules
from retrier.domain.processor_work import WorkQueue
from retrier.domain.retry_batch import RetryBatch, RetryBatchStatus
from retrier.domain.retry_operation import (
    ALIVE,
    OPEN_STATES,
    STANDING_OPERATION,
    CanaryState,
    Priority,
    RetryOperation,
    RetryOperationState,
    RetryType,
)
from retrier.domain.streams import HeldLooks
from retrier.domain.values import dataclass
from retrier.store import cuts
from retrier.store.batches import (
    UNSTAMPED,
    NextBatch,
    batch_from_row,
    find_most_advanced,
    is_due,
)
from retrier.store.breaker_lists import (
    ANY_NOT_CLOSED,
    DUE,
    NOT_CLOSED,
    TRIAL_ENDED,
    find_coming_back,
    find_not_closed,
)
from retrier.store.cuts import Cut
from retrier.store.engine.database import reading
from retrier.store.engine.sql_dialect import SqlDialect
from retrier.store.engine.transaction import Transaction
from retrier.store.holds import find_left_out, find_mark, hold_by_streams
from retrier.store.obstacles import find_obstacles
from retrier.store.operation_lists import is_alive, operation_from_row, whole_operations
from retrier.store.schedule import FIRST, IS_STANDING_MADE, LeftOut, find_reasons, join_left_out
from retrier.store.schema import (
    failed_message_retries,
    processor_lease,
    retry_batch_now_forwarding,
    retry_batches,
    retry_operations,
)
from retrier.store.wait_reasons import find_schedule

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
    """Whether there is an operation to cut, or to make, and a breaker that is not closed.

    `is_single`: the next one is of one named message, which its cut finds by itself.
    """

    may_cut: bool
    may_hold: bool
    is_single: bool


@reading
def find_work(tx: Transaction) -> NextBatch | Outlook:
    """Return the batch that is to be moved next; without one, what the next cut would meet.

    Raises DatabaseUnavailable.
    """
    return find_most_advanced(tx) or look_ahead(tx)


def look_ahead(tx: Transaction) -> Outlook:
    """Look without a lock what the next cut would meet."""
    next_one = _next(tx.sql, bulk_first=False).with_only_columns(operations.retry_type)
    missing = and_(~IS_STANDING_MADE, FIRST.is_not(None))
    query = select(next_one.scalar_subquery(), missing, ANY_NOT_CLOSED)
    retry_type, is_missing, may_hold = tx.execute(query, tx.sql.tell(tx.conn, timedelta(0))).one()
    return Outlook(
        may_cut=retry_type is not None or bool(is_missing),
        may_hold=bool(may_hold),
        is_single=retry_type == RetryType.SINGLE_MESSAGE,
    )


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
        whole_operations()
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """How what is due by policy goes: bulk operations before it, and so many a second.

    By the breakers of these `rules` is known which retries come back.
    """

    bulk_first: bool = False
    per_second: int | None = None
    rules: BreakerRules = field(default_factory=BreakerRules)


PLAIN_TURNS = Turns()


@dataclass(frozen=True, slots=True, kw_only=True)
class CutForecast:
    """What a cut of this operation would take, as long as the operation and these breakers are so.

    `left_out` has no conditions any more: only the trials, and if nothing is left to cut, the
    reasons. `mark` was taken before the look, of an operation that was passed over: what lets go
    during the look changes the next mark, and is looked for again.
    """

    operation: RetryOperation
    mark: str | None
    breakers: Sequence[Breaker]
    cut: Cut
    left_out: LeftOut | None


@reading
def look_at_next(
    tx: Transaction, turns: Turns, held: HeldLooks, *, may_hold: bool
) -> CutForecast | None:
    """Look what the next cut would take; None if it need not be looked for, or if it is nothing.

    Not for messages named by id, of which a cut reads as many rows as it takes. `may_hold`: there
    are breakers that are not closed. Raises DatabaseUnavailable.
    """
    operation = find_next(tx, bulk_first=turns.bulk_first)
    if operation is None or not _is_looked_for(operation):
        return None
    mark = find_mark(tx) if operation.passed_over else None
    if mark is not None and mark == held.marks.get(operation.operation_id):
        return None
    begun = as_cut(operation, turns)
    breakers = sorted(find_not_closed(tx), key=attrgetter("breaker_id")) if may_hold else []
    left_out = join_left_out(find_left_out(tx, begun, breakers), hold_by_streams(tx))
    tx.sql.force_index_order(tx.conn)
    by_policy = operation.retry_type is RetryType.BY_POLICY
    coming_back = find_coming_back(tx, turns.rules) if by_policy else ()
    cut = cuts.look(tx, begun, left_out, coming_back)
    seen = None if left_out is None else _as_seen(tx, begun, cut, left_out)
    return CutForecast(operation=operation, mark=mark, breakers=breakers, cut=cut, left_out=seen)


def as_cut(operation: RetryOperation, turns: Turns) -> RetryOperation:
    """Return an operation as it is cut: as slow as it must be, and one that was passed over anew."""
    if operation.retry_type is RetryType.BY_POLICY:
        rates = (rate for rate in (operation.rate, turns.per_second) if rate is not None)
        operation = replace(operation, rate=min(rates, default=None))
    # From the beginning of its selection: what was left out before may be free now.
    return replace(operation, floor=0, left_out=0) if operation.passed_over else operation


def _is_looked_for(operation: RetryOperation) -> bool:
    judged = operation.canary is not None and operation.canary.state is CanaryState.WAITING
    return not operation.cancel_asked and not judged and operation.selection.ids is None


def _as_seen(
    tx: Transaction, operation: RetryOperation, cut: Cut, left_out: LeftOut
) -> LeftOut | None:
    """Return what it leaves out in words; None if nothing is left to cut and nothing holds any."""
    reasons = find_reasons(tx, operation, left_out) if cut.is_empty else ()
    if cut.is_empty and not reasons:
        return None
    parts = [
        LeftOut(condition=false(), reason=why, looks_again=part.looks_again)
        for part, why in reasons
    ]
    return LeftOut(condition=false(), reason="", trials=left_out.trials, parts=parts)


SHOWN_OPERATIONS = 50
"""Operations that are shown, in the order of their cuts; there may be any number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseState:
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

    processor: LeaseState | None
    queue: WorkQueue


@reading
def find_processor(tx: Transaction) -> ProcessorState:
    """Return the lease and the work as they are now. Raises DatabaseUnavailable."""
    operations = _find_operations(tx)
    queue = WorkQueue(
        batches=_find_batches(tx),
        operations=operations,
        at=tx.now,
        schedule=find_schedule(tx) if any(each.is_standing for each in operations) else None,
        obstacles=find_obstacles(tx),
    )
    return ProcessorState(processor=_find_holder(tx), queue=queue)


def _find_holder(tx: Transaction) -> LeaseState | None:
    row = tx.execute(select(processor_lease)).mappings().one_or_none()
    if row is None:
        return None
    names = "epoch session_id host pid acquired_at renewed_at expires_at"
    pointer = select(retry_batch_now_forwarding.c.batch_id)
    return LeaseState(
        **{name: row[name] for name in names.split()},
        is_held=row["session_id"] is not None and row["expires_at"] > tx.now,
        forwarding=tx.execute(pointer).scalar_one_or_none(),
    )


def _find_batches(tx: Transaction) -> tuple[RetryBatch, ...]:
    """Return the batches alive as they are moved: Forwarding, what may be staged, the others."""
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
    may_be_cut = and_(
        operations.state.in_(sorted(OPEN_STATES)),
        operations.passed_over.is_(False),
        func.coalesce(operations.not_before, tx.now) <= tx.now,
        func.coalesce(operations.next_cut, tx.now) <= tx.now,
    )
    query = (
        whole_operations()
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
