"""Approvals (`approvals`): asked for with an operation, given or refused by another person, lapsed."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from sqlalchemy import insert, select, update

from retrier.domain.approval import (
    Approval,
    ApprovalRefusal,
    ApprovalState,
    ApprovalTerms,
    Decided,
    Decider,
    Verdict,
    describe_asked,
    outcome_of,
    why_not_decide,
)
from retrier.domain.events import SERVICE
from retrier.domain.identity import canonical, is_guid
from retrier.domain.retry_operation import RetryOperationState
from retrier.store import event_log, operations
from retrier.store.engine.database import reading, writing
from retrier.store.engine.transaction import ConcurrentChange, StoredRow, Transaction
from retrier.store.event_log import Entry
from retrier.store.schema import approvals, retry_operations

columns = approvals.c

MOST_LISTED = 100
"""Operations that wait for approval and are listed, those first that lapse first."""
_AT_ONCE = 100
_WAITS = {RetryOperationState.PAUSED}
"""The state of an operation that waits for approval: nothing cuts it."""


def ask(
    tx: Transaction,
    operation_id: str,
    terms: ApprovalTerms,
    *,
    plan_hash: str,
    total: int,
    asked_by: str,
    originator: str,
) -> None:
    """Ask for the approval of an operation that this transaction adds, as one that is paused."""
    tx.execute(
        insert(approvals).values(
            operation_id=operation_id,
            plan_hash=plan_hash,
            total=total,
            asked_by=asked_by,
            asked_as=terms.asked_as,
            asked_at=tx.now,
            lapses_at=tx.now + terms.rules.lapses_after,
            state=ApprovalState.ASKED,
        )
    )
    text = f"{originator}: {describe_asked(total)}"
    event_log.append(tx, [_entry("asked_for_approval", text, asked_by, operation_id)])


def approval_from_row(row: Mapping[str, Any]) -> Approval | None:
    """Return the approval of a row of `whole_operations`; None if none was asked for."""
    if row["approval_state"] is None:
        return None
    return Approval(
        state=ApprovalState(row["approval_state"]),
        plan_hash=row["plan_hash"],
        total=row["approval_total"],
        asked_by=row["asked_by"],
        asked_as=row["asked_as"],
        asked_at=row["asked_at"],
        lapses_at=row["lapses_at"],
        decided_at=row["decided_at"],
        decided_by=row["decided_by"],
        decided_as=row["decided_as"],
    )


IN_OPERATIONS = (
    columns.state.label("approval_state"),
    columns.plan_hash,
    columns.total.label("approval_total"),
    columns.asked_by,
    columns.asked_as,
    columns.asked_at,
    columns.lapses_at,
    columns.decided_at,
    columns.decided_by,
    columns.decided_as,
)
"""What `approval_from_row` reads."""

_FOUND = select(
    retry_operations.c.operation_id, retry_operations.c.originator, *IN_OPERATIONS
).outerjoin_from(
    retry_operations, approvals, columns.operation_id == retry_operations.c.operation_id
)


def is_asked(tx: Transaction, operation_id: str) -> bool:
    """Say whether an operation waits for approval."""
    query = select(columns.state).where(columns.operation_id == operation_id)
    return tx.execute(query).scalar_one_or_none() == ApprovalState.ASKED


@writing
def decide_approval(
    tx: Transaction, operation_id: str, verdict: Verdict, who: Decider
) -> Decided | ApprovalRefusal:
    """Take a second person's verdict: approved, the operation waits for its cut; refused, it ends.

    The operation is changed before its approval, here and wherever both are: nobody waits for each
    other. Raises DatabaseUnavailable.
    """
    key = canonical(operation_id) if is_guid(operation_id) else None
    row = tx.execute(_FOUND.where(retry_operations.c.operation_id == key)).mappings().first()
    if row is None:
        return ApprovalRefusal.UNKNOWN
    found = approval_from_row(dict(row))
    why_not = why_not_decide(found, verdict, who, tx.now)
    if why_not is not None or found is None:
        return why_not or ApprovalRefusal.NOT_ASKED
    whole = str(row["operation_id"])
    if not found.is_asked:
        return Decided(operation_id=whole, changed=False)
    kind, words, values = _of_verdict(verdict, who)
    # Only while it is paused and not cancelled. Raises ConcurrentChange if somebody was faster.
    operations.change(tx, whole, _WAITS, values)
    _end(tx, whole, outcome_of(verdict), who)
    event_log.append(tx, [_entry(kind, f"{row['originator']}: {words}", who.shown, whole)])
    tx.sql.announce_request(tx.conn)
    return Decided(operation_id=whole, changed=True)


def _of_verdict(verdict: Verdict, who: Decider) -> tuple[str, str, Mapping[str, object]]:
    if verdict is Verdict.APPROVE:
        return "approved", "approved", {"state": RetryOperationState.WAITING}
    words = "its approval was refused, and it is cancelled"
    cancelled = {"cancel_asked": True, "reason": f"its approval was refused by {who.shown}"}
    return "approval_refused", words, cancelled


def give_up(tx: Transaction, operation_id: str) -> None:
    """Let the approval lapse that is asked for an operation that this transaction cancels."""
    _end(tx, operation_id, ApprovalState.LAPSED, None)


def _end(tx: Transaction, operation_id: str, state: ApprovalState, who: Decider | None) -> None:
    told = {} if who is None else {"decided_by": who.shown, "decided_as": who.identity}
    decided = (
        update(approvals)
        .where(columns.operation_id == operation_id, columns.state == ApprovalState.ASKED)
        .values(state=state, decided_at=tx.now, **told)
    )
    if tx.execute(decided).rowcount != 1:
        raise ConcurrentChange


_DUE = (
    select(columns.operation_id, columns.asked_at, columns.lapses_at, retry_operations.c.originator)
    .join_from(approvals, retry_operations)
    .where(columns.state == ApprovalState.ASKED)
    .order_by(columns.lapses_at)
    .limit(_AT_ONCE)
)


@reading
def is_any_over(tx: Transaction) -> bool:
    """Say whether the time of any approval is over. Raises DatabaseUnavailable."""
    return tx.execute(_DUE.where(columns.lapses_at <= tx.now).limit(1)).first() is not None


@writing
def lapse_approvals(tx: Transaction) -> tuple[str, ...]:
    """Cancel operations that nobody approved in time, by the database's clock; return their ids.

    Raises DatabaseUnavailable.
    """
    due = tx.execute(_DUE.where(columns.lapses_at <= tx.now)).all()
    for row in due:
        _lapse(tx, row)
    if due:
        tx.sql.announce_request(tx.conn)
    return tuple(str(row.operation_id) for row in due)


def _lapse(tx: Transaction, row: StoredRow) -> None:
    key, reason = str(row.operation_id), _why_lapsed(row.lapses_at - row.asked_at)
    operations.change(tx, key, _WAITS, {"cancel_asked": True, "reason": reason})
    _end(tx, key, ApprovalState.LAPSED, None)
    text = f"{row.originator}: {reason}, and it is cancelled"
    event_log.append(tx, [_entry("approval_lapsed", text, SERVICE, key)])


def _why_lapsed(after: timedelta) -> str:
    hours = after.total_seconds() / 3600
    return f"nobody approved it within {hours:g} hours"


def _entry(kind: str, text: str, who: str, operation_id: str) -> Entry:
    return Entry(kind=kind, text=text, who=who, operation_id=operation_id)
