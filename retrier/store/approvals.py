"""Approvals (`approvals`): asked for with an operation, and ended by a verdict, a cancel or the time."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import ColumnElement, exists, insert, select, update

from retrier.domain.approval import (
    Approval,
    ApprovalState,
    ApprovalTerms,
    Decider,
    describe_asked,
)
from retrier.store import event_log
from retrier.store.engine.transaction import ConcurrentChange, Transaction
from retrier.store.event_log import Entry
from retrier.store.schema import approvals

columns = approvals.c

MOST_LISTED = 100
"""Operations that wait for approval and are listed, those first that lapse first."""


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
    asked = Entry(kind="asked_for_approval", text=text, who=asked_by, operation_id=operation_id)
    event_log.append(tx, [asked])


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


def is_asked(tx: Transaction, operation_id: str) -> bool:
    """Say whether an operation waits for approval."""
    query = select(columns.state).where(columns.operation_id == operation_id)
    return tx.execute(query).scalar_one_or_none() == ApprovalState.ASKED


def waits(operation_id: ColumnElement[str]) -> ColumnElement[bool]:
    """Say in a statement whether the operation of a row waits for approval."""
    return exists().where(
        columns.operation_id == operation_id, columns.state == ApprovalState.ASKED
    )


def end(tx: Transaction, operation_id: str, state: ApprovalState, who: Decider | None) -> None:
    """End an approval that is asked for. Raises ConcurrentChange if somebody was faster.

    The operation is changed before its approval, wherever both are: nobody waits for each other.
    """
    told = {} if who is None else {"decided_by": who.shown, "decided_as": who.identity}
    decided = (
        update(approvals)
        .where(columns.operation_id == operation_id, columns.state == ApprovalState.ASKED)
        .values(state=state, decided_at=tx.now, **told)
    )
    if tx.execute(decided).rowcount != 1:
        raise ConcurrentChange
