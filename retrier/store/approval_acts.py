"""What ends an approval: the verdict of a second person, and the time."""

from collections.abc import Mapping
from datetime import timedelta

from sqlalchemy import select

from retrier.domain.approval import (
    ApprovalRefusal,
    ApprovalState,
    Decided,
    Decider,
    Verdict,
    outcome_of,
    why_not_decide,
)
from retrier.domain.edits import EditRefused
from retrier.domain.events import SERVICE
from retrier.domain.identity import canonical, is_guid
from retrier.domain.retry_operation import RetryOperationState, RetryType
from retrier.store import edit_requests, edits, event_log, operations
from retrier.store.approvals import IN_OPERATIONS, approval_from_row, end, is_asked
from retrier.store.engine.database import reading, writing
from retrier.store.engine.transaction import ConcurrentChange, StoredRow, Transaction
from retrier.store.event_log import Entry
from retrier.store.schema import approvals, retry_operations

columns = approvals.c

_AT_ONCE = 100
_WAITS = {RetryOperationState.PAUSED}
"""The state of an operation that waits for approval: nothing cuts it."""

_FOUND = select(
    retry_operations.c.operation_id,
    retry_operations.c.originator,
    retry_operations.c.retry_type,
    retry_operations.c.patch,
    *IN_OPERATIONS,
).outerjoin_from(
    retry_operations, approvals, columns.operation_id == retry_operations.c.operation_id
)


@writing
def decide_approval(
    tx: Transaction, operation_id: str, verdict: Verdict, who: Decider
) -> Decided | ApprovalRefusal | EditRefused:
    """Take a second person's verdict: approved, the operation waits for its cut; refused, it ends.

    An edit takes the claim of its message now: if that is another one meanwhile, or in other hands,
    the verdict is not taken. Raises DatabaseUnavailable.
    """
    key = canonical(operation_id) if is_guid(operation_id) else None
    row = tx.execute(_FOUND.where(retry_operations.c.operation_id == key)).mappings().first()
    if row is None:
        return ApprovalRefusal.UNKNOWN
    found = approval_from_row(dict(row))
    of_edit = row["retry_type"] == RetryType.EDIT
    changes = of_edit or row["patch"] is not None
    why_not = why_not_decide(found, verdict, who, tx.now, of_edit=changes)
    if why_not is not None or found is None:
        return why_not or ApprovalRefusal.NOT_ASKED
    whole = str(row["operation_id"])
    if not found.is_asked:
        return Decided(operation_id=whole, changed=False)
    kind, words, values = _of_verdict(verdict, who)
    if of_edit and verdict is Verdict.APPROVE:
        # The message and its claim before the operation, as with every edit.
        begun = edit_requests.begin_approved(tx, whole)
        if isinstance(begun, EditRefused):
            if not is_asked(tx, whole):
                # It has its claim: somebody decided while this waited for the message.
                raise ConcurrentChange
            return begun
        values = begun
    # Only while it is paused and not cancelled. Raises ConcurrentChange if somebody was faster.
    operations.change(tx, whole, _WAITS, values)
    end(tx, whole, outcome_of(verdict), who)
    if verdict is Verdict.REFUSE:
        edits.drop_unapproved(tx, whole, str(values["reason"]))
    event_log.append(tx, [_entry(kind, f"{row['originator']}: {words}", who.shown, whole)])
    tx.sql.announce_request(tx.conn)
    return Decided(operation_id=whole, changed=True)


def _of_verdict(verdict: Verdict, who: Decider) -> tuple[str, str, Mapping[str, object]]:
    if verdict is Verdict.APPROVE:
        return "approved", "approved", {"state": RetryOperationState.WAITING}
    words = "its approval was refused, and it is cancelled"
    cancelled = {"cancel_asked": True, "reason": f"its approval was refused by {who.shown}"}
    return "approval_refused", words, cancelled


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
    end(tx, key, ApprovalState.LAPSED, None)
    edits.drop_unapproved(tx, key, reason)
    text = f"{row.originator}: {reason}, and it is cancelled"
    event_log.append(tx, [_entry("approval_lapsed", text, SERVICE, key)])


def _why_lapsed(after: timedelta) -> str:
    hours = after.total_seconds() / 3600
    return f"nobody approved it within {hours:g} hours"


def _entry(kind: str, text: str, who: str, operation_id: str) -> Entry:
    return Entry(kind=kind, text=text, who=who, operation_id=operation_id)
