"""Windows of forwarding: what is finished is recorded, what comes next is stamped, in one go."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from sqlalchemy import Select, bindparam, func, select

from retrier.domain.retry_batch import RetryBatch, StampedMessage, WindowResult
from retrier.store.engine.sql_dialect import IN_BINARY, SqlDialect
from retrier.store.engine.transaction import Transaction
from retrier.store.engine.verb import reading
from retrier.store.schema import failed_message_retries, failed_messages, processing_attempts
from retrier.store.tables import claims, message_locks, retry_operations
from retrier.store.verbs.fencing import fenced
from retrier.store.verbs.returning import take_back

messages = failed_messages.c
attempts = processing_attempts.c

_MEMBERS = (
    select(messages.unique_message_id, messages.number)
    .join_from(
        failed_message_retries,
        failed_messages,
        messages.number == failed_message_retries.c.number,
    )
    .where(failed_message_retries.c.batch_id == bindparam("batch"))
)


@reading
def load_members(tx: Transaction, batch_id: str) -> Mapping[str, int]:
    """Return the messages that a batch claims: their numbers by their unique ids.

    Once it is in Forwarding none is added any more. Raises DatabaseUnavailable.
    """
    return {row[0]: row[1] for row in tx.execute(_MEMBERS, {"batch": batch_id})}


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
        _take_back(tx, batch, finished)
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
def load_bodies(tx: Transaction, numbers: Sequence[int]) -> Mapping[int, bytes | None]:
    """Return the bodies of these messages, before their claims are stamped; None for a lost one.

    Nothing is promised of them: a message that fails once more has another body, and its claim
    is over, so that it cannot be stamped any more. Raises DatabaseUnavailable.
    """
    rows = tx.execute(_load_bodies(tx.sql), {"numbers": numbers}).all()
    return {row[0]: row[1] for row in rows}


def _take_back(tx: Transaction, batch: RetryBatch, finished: WindowResult) -> None:
    """Make what was reverted unresolved again; its messages are locked before any claim."""
    tx.sql.share_cut_off(tx.conn)
    message_locks.lock(tx, sorted(item.number for item in finished.reverted))
    claims.lock_batch(tx, batch.batch_id)
    take_back(tx, batch, finished.reverted)


@cache
def _load_bodies(sql: SqlDialect) -> Select[Any]:
    # No join: with a table as large as the statistics have not heard of yet, the server reads
    # all of it to find two hundred rows.
    holder = processing_attempts.alias()
    equal = (
        select(holder.c.body).where(holder.c.attempt_id == attempts.same_body_as).scalar_subquery()
    )
    body = (
        select(func.coalesce(attempts.body, equal))
        .where(attempts.attempt_id == messages.attempt_id)
        .scalar_subquery()
    )
    wanted = select(messages.number, body).where(sql.listed(messages.number, "numbers"))
    return wanted.execution_options(**{IN_BINARY: True})
