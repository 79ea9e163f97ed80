"""Windows of forwarding: what is finished is recorded, what comes next is stamped, in one go."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from sqlalchemy import Select, func, select

from retrier.domain.retry_batch import (
    RetryBatch,
    StampedMessage,
    StoredOriginal,
    WindowResult,
)
from retrier.store.engine.database import reading
from retrier.store.engine.sql_dialect import IN_BINARY, SqlDialect
from retrier.store.engine.transaction import Transaction
from retrier.store.schema import failed_messages, processing_attempts
from retrier.store.tables import claims, message_locks, retry_operations
from retrier.store.verbs.leases import fenced
from retrier.store.verbs.retry_ends import revert

messages = failed_messages.c
attempts = processing_attempts.c


@fenced
def open_window(
    tx: Transaction, batch: RetryBatch, *, finished: WindowResult, numbers: Sequence[int]
) -> tuple[StampedMessage, ...]:
    """Record the window before, and stamp the claims of this one.

    One transaction, and it renews the lease. Only what is returned may be published: the rest
    has no claim of this batch any more or is recorded already. Raises LeaseLost,
    DatabaseUnavailable.
    """
    if finished.reverted:
        _revert(tx, batch, finished)
    moved = claims.record_and_stamp(tx, batch.batch_id, finished.forwarded, numbers)
    # A claim that is gone has had its outcome already, which counted it.
    recorded = moved.keys() & set(finished.forwarded)
    retry_operations.count_forwarded(tx, [batch.operation_id] * len(recorded))
    return tuple(
        StampedMessage(number=number, in_doubt=in_doubt)
        for number, in_doubt in moved.items()
        if number not in recorded
    )


@reading
def load_originals(tx: Transaction, numbers: Sequence[int]) -> Mapping[int, StoredOriginal | None]:
    """Return these messages as they failed, by number; None for one whose failure is deleted.

    A message that is deleted itself is missing. Nothing is promised of the others: one that fails
    once more is another message, and its claim is over, so that it cannot be stamped any more.
    Raises DatabaseUnavailable.
    """
    shown = {row[0]: row[1] for row in tx.execute(_shown(tx.sql), {"numbers": numbers})}
    rows = tx.execute(_stored(tx.sql), {"attempts": list(shown.values())})
    # A body that somebody deleted leaves nothing to send, either.
    stored = {row[0]: StoredOriginal(*row[1:]) for row in rows if row.body is not None}
    return {number: stored.get(attempt) for number, attempt in shown.items()}


def _revert(tx: Transaction, batch: RetryBatch, finished: WindowResult) -> None:
    """Make what was reverted unresolved again; its messages are locked before any claim."""
    tx.sql.share_cut_off(tx.conn)
    message_locks.lock(tx, sorted(item.number for item in finished.reverted))
    claims.lock_batch(tx, batch.batch_id)
    revert(tx, batch, finished.reverted)


# Two statements and no join: with a table as large as the statistics have not heard of yet, the
# server would read all of it to find two hundred rows.
@cache
def _shown(sql: SqlDialect) -> Select[Any]:
    return select(messages.number, messages.attempt_id).where(
        sql.listed(messages.number, "numbers")
    )


@cache
def _stored(sql: SqlDialect) -> Select[Any]:
    holder = processing_attempts.alias()
    equal = (
        select(holder.c.body).where(holder.c.attempt_id == attempts.same_body_as).scalar_subquery()
    )
    return (
        select(
            attempts.attempt_id,
            attempts.raw_properties,
            func.coalesce(attempts.body, equal).label("body"),
            attempts.dialect,
            attempts.error_queue,
            attempts.completed_steps,
        )
        .where(sql.listed(attempts.attempt_id, "attempts"))
        .execution_options(**{IN_BINARY: True})
    )
