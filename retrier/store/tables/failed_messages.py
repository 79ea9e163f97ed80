"""Failed messages (`failed_messages`): added, counted, and moved between states."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from sqlalchemy import Update, bindparam, case, delete, func, or_, update
from sqlalchemy.sql.dml import ReturningUpdate

from retrier.domain.decision import Decision
from retrier.domain.failed_message import (
    MOVES,
    Disposition,
    FailedMessageStatus,
    Move,
    Resolution,
)
from retrier.domain.receipt import MessageChange
from retrier.store.engine.new_rows import add_new
from retrier.store.engine.sql_dialect import Counter, SqlDialect
from retrier.store.engine.transaction import Transaction
from retrier.store.schema import failed_message_retries, failed_messages
from retrier.store.schema.types import UtcTime
from retrier.store.tables.message_locks import legal, sendable
from retrier.store.tables.processing_attempts import Newest, decided_columns, shown_columns

messages = failed_messages.c
claims = failed_message_retries.c

_KEY = messages.number == bindparam("key")
_NOW = bindparam("now", type_=UtcTime)
_FIRST = bindparam("first", type_=UtcTime)
_COUNTED = {
    "attempts": messages.attempts + bindparam("added"),
    "first_failure": case((messages.first_failure > _FIRST, _FIRST), else_=messages.first_failure),
}
"""What every attempt changes in the row of its message; see `_counted` for the parameters."""
_PRESUMED = messages.resolution == Resolution.PRESUMED
"""Resolved, but nobody has said so: its retry was sent long ago and did not come back."""
_NO_DISPOSITION = {"disposition": Disposition.MANUAL, "disposition_reason": None, "retry_at": None}
"""Only an unresolved message has a decision (check constraint)."""


def add(tx: Transaction, numbers: Sequence[int], new: Sequence[Newest]) -> None:
    """Add messages under these numbers, each with a new failure number.

    Added in the order of their unique ids: two processes that add the same must not deadlock.
    Raises ConcurrentChange if another process has added one of them meanwhile.
    """
    seqs = tx.sql.take_numbers(tx.conn, Counter.FAILURE_SEQ, len(new)) if new else []
    rows = [
        {
            "number": number,
            "failure_seq": seq,
            "unique_message_id": each.change.unique_message_id,
            "attempts": each.change.attempts_added,
            "failure_count": 1,
            "first_failure": each.change.first_failure,
            "status": FailedMessageStatus.UNRESOLVED,
            **shown_columns(each),
        }
        for number, seq, each in zip(numbers, seqs, new, strict=True)
    ]
    add_new(tx, failed_messages, sorted(rows, key=lambda row: str(row["unique_message_id"])))


def become_unresolved(
    tx: Transaction,
    move: Move,
    decisions: Mapping[int, Decision],
    newest: Mapping[int, Newest] | None = None,
) -> None:
    """Make messages unresolved, each under a new failure number and with a decision.

    The new number is above every cut-off taken so far: no earlier operation picks the message up
    again. `newest` gives what the messages show from now on. The caller must share the cut-off
    first, then lock the messages. A message that may not make this move is not changed.
    """
    if not decisions:
        return
    seqs = tx.sql.take_numbers(tx.conn, Counter.FAILURE_SEQ, len(decisions))
    shown = {number: shown_columns(each) for number, each in (newest or {}).items()}
    rows = [
        {
            "key": number,
            "seq": seq,
            **decided_columns(decisions[number]),
            **(_replacing(newest[number], shown[number]) if newest else {"modified": tx.now}),
        }
        for number, seq in zip(sorted(decisions), seqs, strict=True)
    ]
    names = tuple(next(iter(shown.values()), ()))
    tx.execute(_fail_anew(names) if newest else _become_unresolved(move), rows)


def count_attempts(tx: Transaction, changes: Mapping[int, MessageChange]) -> None:
    """Count attempts that change neither status nor details of their messages."""
    rows = [
        {"key": number, "latest": change.last_failure, **_counted(change)}
        for number, change in sorted(changes.items())
    ]
    if rows:
        latest = func.coalesce(bindparam("latest", type_=UtcTime), messages.last_failure)
        tx.execute(
            update(failed_messages).where(_KEY).values(**_COUNTED, last_failure=latest), rows
        )


def confirm(tx: Transaction, changes: Mapping[int, MessageChange]) -> None:
    """Resolve messages whose consumers confirmed them, also those presumed to have succeeded."""
    rows = [
        {
            "key": number,
            # NULL if the confirmation has no time: later failures are compared with this one.
            "at": change.confirmation.succeeded_at,
            "now": change.confirmation.received_at,
        }
        for number, change in sorted(changes.items())
        if change.confirmation is not None
    ]
    if rows:
        tx.execute(_confirm(), rows)


def settle(tx: Transaction, numbers: Sequence[int]) -> None:
    """Resolve messages because a person says so."""
    evidence = {"resolution": Resolution.BY_HAND, "resolved_at": tx.now}
    tx.execute(_put(tx, Move.SETTLED, numbers).values(**evidence))


def presume(tx: Transaction, numbers: Sequence[int]) -> None:
    """Resolve messages whose retry was sent long ago; the caller must end their claims."""
    evidence = {"resolution": Resolution.PRESUMED, "resolved_at": tx.now}
    tx.execute(_put(tx, Move.PRESUMED, numbers).values(**evidence))


def archive(tx: Transaction, numbers: Sequence[int], operation_id: str | None = None) -> None:
    """Archive messages; they name the archive operation, so that it can be undone."""
    tx.execute(_put(tx, Move.ARCHIVED, numbers).values(archive_operation_id=operation_id))


def issue(tx: Transaction, batch_id: str, numbers: Sequence[int]) -> Sequence[int]:
    """Make messages *retry issued* if their claim by this batch holds; return their numbers."""
    if not numbers:
        return []
    known = {"batch": batch_id, "numbers": numbers, "now": tx.now}
    return tx.execute(_issue(tx.sql), known).scalars().all()


def remove(tx: Transaction, numbers: Sequence[int]) -> None:
    """Delete messages that the caller has locked."""
    tx.execute(delete(failed_messages).where(tx.sql.member(messages.number, numbers)))


@cache
def _issue(sql: SqlDialect) -> ReturningUpdate[Any]:
    return (
        update(failed_messages)
        .where(
            claims.number == messages.number,
            claims.batch_id == bindparam("batch"),
            sql.listed(claims.number, "numbers"),
            sendable(),
        )
        .values(
            status=MOVES[Move.ISSUED][1],
            last_retry_id=claims.retry_id,
            last_modified=_NOW,
            **_NO_DISPOSITION,
        )
        .returning(messages.number)
    )


@cache
def _become_unresolved(move: Move) -> Update:
    return _moved_anew(move).values(last_modified=bindparam("modified", type_=UtcTime))


@cache
def _fail_anew(names: Sequence[str]) -> Update:
    columns = {name: bindparam(f"new_{name}", type_=messages[name].type) for name in names}
    # After a retry that a person asked for, the count begins again at 1.
    retried = or_(messages.status == FailedMessageStatus.RETRY_ISSUED, _PRESUMED)
    count = case((retried, 1), else_=messages.failure_count + 1)
    return _moved_anew(Move.FAILED).values(**_COUNTED, **columns, failure_count=count)


def _moved_anew(move: Move) -> Update:
    return (
        update(failed_messages)
        .where(_KEY, legal(move))
        .values(
            status=MOVES[move][1],
            failure_seq=bindparam("seq"),
            resolution=None,
            resolved_at=None,
            archive_operation_id=None,
            disposition=bindparam("decided"),
            disposition_reason=bindparam("why"),
            retry_at=bindparam("due", type_=UtcTime),
            policy=bindparam("by"),
        )
    )


@cache
def _confirm() -> Update:
    return (
        update(failed_messages)
        .where(_KEY, or_(legal(Move.CONFIRMED), legal(Move.UPGRADED) & _PRESUMED))
        .values(
            status=MOVES[Move.CONFIRMED][1],
            resolution=Resolution.CONFIRMED,
            resolved_at=bindparam("at", type_=UtcTime),
            last_modified=_NOW,
            **_NO_DISPOSITION,
        )
    )


def _put(tx: Transaction, move: Move, numbers: Sequence[int]) -> Update:
    return (
        update(failed_messages)
        .where(tx.sql.member(messages.number, numbers), legal(move))
        .values(status=MOVES[move][1], last_modified=tx.now, **_NO_DISPOSITION)
    )


def _counted(change: MessageChange) -> dict[str, object]:
    return {"added": change.attempts_added, "first": change.first_failure}


def _replacing(newest: Newest, shown: Mapping[str, object]) -> dict[str, object]:
    return {
        **_counted(newest.change),
        **{f"new_{name}": value for name, value in shown.items()},
    }
