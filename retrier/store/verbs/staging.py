"""Staging: what a batch's copies are made of, and the one transaction into Forwarding."""

from datetime import timedelta

from sqlalchemy import bindparam, func, select

from retrier.domain.retry_batch import ClaimedMessage, RetryBatch, RetryBatchStatus, StagedCopies
from retrier.store.engine.sql_dialect import IN_BINARY
from retrier.store.engine.transaction import Transaction
from retrier.store.engine.verb import reading
from retrier.store.schema import (
    causes,
    failed_message_retries,
    failed_messages,
    message_redirects,
    processing_attempts,
)
from retrier.store.tables import (
    claims,
    event_log,
    message_locks,
    now_forwarding,
    retry_batches,
    retry_operations,
)
from retrier.store.tables import retry_operation_messages as named
from retrier.store.tables.event_log import Event
from retrier.store.tables.failed_messages import issue
from retrier.store.tables.message_locks import sendable
from retrier.store.verbs.ending import end_batch
from retrier.store.verbs.fencing import fenced
from retrier.store.verbs.returning import take_back

messages = failed_messages.c
retries = failed_message_retries.c
attempts = processing_attempts.c
redirects = message_redirects.c

_DROPPED = "it changed after it was claimed"

# Made once: SQLAlchemy takes longer to make a statement than to carry it out.
_LOAD_CLAIMED = (
    select(
        retries.number,
        messages.unique_message_id,
        retries.retry_id,
        attempts.dialect,
        attempts.error_queue,
        func.coalesce(redirects.to_queue, causes.c.destination).label("destination"),
        attempts.raw_properties.label("raw"),
        messages.body_size,
        attempts.completed_steps,
    )
    .join_from(failed_message_retries, failed_messages, messages.number == retries.number)
    .join(processing_attempts, attempts.attempt_id == messages.attempt_id)
    .join(causes, causes.c.cause_id == messages.cause_id)
    .outerjoin(message_redirects, redirects.from_queue == causes.c.destination)
    .where(retries.batch_id == bindparam("batch"), retries.forwarded_at.is_(None), sendable())
    .order_by(messages.failure_seq)
    .execution_options(**{IN_BINARY: True})
)


@reading
def load_claimed(tx: Transaction, batch_id: str) -> tuple[ClaimedMessage, ...]:
    """Return the batch's unrecorded claims in the order of failure, redirects applied.

    Raises DatabaseUnavailable.
    """
    claimed = tx.execute(_LOAD_CLAIMED, {"batch": batch_id})
    names = tuple(claimed.keys())
    # Not by `mappings`: to make one of each row takes as long as to read the row.
    return tuple(ClaimedMessage(**dict(zip(names, row, strict=True))) for row in claimed.all())


@fenced
def begin_forwarding(tx: Transaction, batch: RetryBatch, staged: StagedCopies) -> int:
    """Move a staged batch into Forwarding; return its frozen message count.

    One transaction: staging id and count frozen, messages *retry issued*, pointer set. Messages
    that left meanwhile (failed again, resolved) are dropped and their claims released; their
    copies will be acked unsent. A batch of which nothing is left is deleted. Raises LeaseLost,
    DatabaseUnavailable.
    """
    if staged.ejected:
        # Before any row: an ingester that waits for these rows holds off who wants the numbers.
        tx.sql.share_cut_off(tx.conn)
    ejected = {item.number for item in staged.ejected}
    message_locks.lock(tx, sorted({*staged.numbers, *ejected}))
    claims.lock_batch(tx, batch.batch_id)
    take_back(tx, batch, staged.ejected)
    issued = issue(tx, batch.batch_id, staged.numbers)
    dropped = claims.keep_only(tx, batch.batch_id, issued)
    named.note_dropped(tx, batch.operation_id, dropped, _DROPPED)
    if not issued:
        end_batch(tx, batch.batch_id)
        return 0
    _freeze(tx, batch, staged.staging_id, len(issued))
    return len(issued)


@fenced
def back_off_batch(tx: Transaction, batch_id: str, *, wait: timedelta, reason: str) -> None:
    """Let a batch in Staging wait, and say why. Raises LeaseLost, DatabaseUnavailable."""
    retry_batches.back_off(tx, batch_id, wait, reason)


def _freeze(tx: Transaction, batch: RetryBatch, staging_id: str, count: int) -> None:
    retry_batches.move(
        tx,
        batch.batch_id,
        RetryBatchStatus.FORWARDING,
        staging_id=staging_id,
        message_count=count,
        not_before=None,
        reason=None,
    )
    now_forwarding.point_at(tx, batch.batch_id)
    retry_operations.go_on_its_way(tx, batch.operation_id)
    staged = Event(
        kind="batch_staged",
        text=f"{count} messages are staged and on their way",
        operation_id=batch.operation_id,
        batch_id=batch.batch_id,
    )
    event_log.append(tx, [staged])
