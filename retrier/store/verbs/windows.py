"""Windows of Forwarding: one transaction records the window before and stamps the next one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import Select, bindparam, func, select

from retrier.domain.decision import Decided
from retrier.domain.retry_batch import (
    RetryBatch,
    StampedMessage,
    StoredOriginal,
    WindowResult,
)
from retrier.policy.policy_set import WAITING, Judge
from retrier.store.engine.database import reading
from retrier.store.engine.sql_dialect import IN_BINARY, SqlDialect
from retrier.store.engine.transaction import Transaction
from retrier.store.queries.completed_steps import NAMED_BY_ANY, find_steps
from retrier.store.schema import failed_messages, processing_attempts
from retrier.store.schema import retry_operations as all_operations
from retrier.store.tables import claims, event_log, message_locks, retry_operations
from retrier.store.tables.event_log import Entry
from retrier.store.verbs.breaker_counting import count_sent
from retrier.store.verbs.leases import fenced
from retrier.store.verbs.retry_ends import revert

messages = failed_messages.c
attempts = processing_attempts.c
operations = all_operations.c


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedWindow:
    """The claims of a window that are stamped, and what was decided about what was reverted."""

    stamped: tuple[StampedMessage, ...]
    decided: Sequence[Decided] = ()


@fenced
def open_window(
    tx: Transaction,
    batch: RetryBatch,
    judge: Judge = WAITING,
    *,
    finished: WindowResult,
    numbers: Sequence[int],
    tell_doubt: bool = True,
) -> OpenedWindow:
    """Record the window before, and stamp the claims of this one.

    One transaction, which also renews the lease. `tell_doubt` writes into the event log how many of
    them are in doubt, if any are: not for those that go one by one, which were told before. Only
    what is stamped may be published: any other message has lost its claim, is recorded, is not
    *retry issued*, or was not stamped before the cancel of its operation was asked for. `judge`
    decides what happens next to what was reverted. Raises LeaseLost, DatabaseUnavailable.
    """
    decided = _revert(tx, batch, finished, judge) if finished.reverted else ()
    moved = claims.record_and_stamp(tx, batch, finished.forwarded, numbers)
    # If a claim is gone, its outcome has arrived, and was counted then.
    recorded = moved.keys() & set(finished.forwarded)
    retry_operations.count_forwarded(tx, [batch.operation_id] * len(recorded))
    counted = [moved[number] for number in recorded if moved[number].breaker_id is not None]
    if counted:
        count_sent(tx, counted)
    stamped = tuple(
        StampedMessage(number=number, in_doubt=claim.in_doubt)
        for number, claim in moved.items()
        if number not in recorded
    )
    doubtful = sum(each.in_doubt for each in stamped)
    if doubtful and tell_doubt:
        _tell_doubt(tx, batch, doubtful)
    return OpenedWindow(stamped=stamped, decided=decided)


@reading
def load_originals(
    tx: Transaction, numbers: Sequence[int], operation_id: str | None = None
) -> Mapping[int, StoredOriginal | None]:
    """Return these messages as they failed, by number; None for one whose failure is deleted.

    A deleted message is missing in the result. Nothing is locked: a message may fail again with
    another body, but that ends its claim, so it is not stamped and the old body is not sent.
    Raises DatabaseUnavailable.
    """
    asked = {"numbers": numbers, "operation": operation_id}
    found = tx.execute(_shown(tx.sql), asked).all()
    shown = {row.number: row.attempt_id for row in found}
    dropped = tuple(found[0].drop_headers or ()) if found else ()
    steps = find_steps(tx, numbers) if found and found[0].any_steps else {}
    rows = tx.execute(_stored(tx.sql), {"attempts": list(shown.values())})
    # If somebody deleted only the body, there is nothing to send either.
    stored = {
        row.attempt_id: StoredOriginal(
            row.raw_properties,
            row.body,
            row.dialect,
            row.error_queue,
            steps.get(row.number),
            dropped,
        )
        for row in rows
        if row.body is not None
    }
    return {number: stored.get(attempt) for number, attempt in shown.items()}


def _tell_doubt(tx: Transaction, batch: RetryBatch, count: int) -> None:
    text = (
        f"messages of the batch that a crash or a lost connection left in doubt: {count}; they are "
        "sent again, and may arrive twice"
    )
    entry = Entry(
        kind="sent_again",
        text=text,
        operation_id=batch.operation_id,
        batch_id=batch.batch_id,
        details={"count": count},
    )
    event_log.append(tx, [entry])


def _revert(
    tx: Transaction, batch: RetryBatch, finished: WindowResult, judge: Judge
) -> Sequence[Decided]:
    """Make the reverted messages unresolved again; locks messages first, then claims."""
    tx.sql.share_cut_off(tx.conn)
    message_locks.lock(tx, sorted(item.number for item in finished.reverted))
    claims.lock_batch(tx, batch.batch_id)
    return revert(tx, batch, finished.reverted, judge)


# Two statements instead of a join: if the table has grown since its statistics were made, the
# planner would read all of it for a join, to find two hundred rows.
@cache
def _shown(sql: SqlDialect) -> Select[Any]:
    # Of one operation, and of all attempts: each is read once, whatever the number of messages.
    dropped = select(operations.drop_headers).where(
        operations.operation_id == bindparam("operation")
    )
    return select(
        messages.number,
        messages.attempt_id,
        dropped.scalar_subquery().label("drop_headers"),
        NAMED_BY_ANY.label("any_steps"),
    ).where(sql.listed(messages.number, "numbers"))


@cache
def _stored(sql: SqlDialect) -> Select[Any]:
    holder = processing_attempts.alias()
    equal = (
        select(holder.c.body).where(holder.c.attempt_id == attempts.same_body_as).scalar_subquery()
    )
    return (
        select(
            attempts.attempt_id,
            attempts.number,
            attempts.raw_properties,
            func.coalesce(attempts.body, equal).label("body"),
            attempts.dialect,
            attempts.error_queue,
        )
        .where(sql.listed(attempts.attempt_id, "attempts"))
        .execution_options(**{IN_BINARY: True})
    )
