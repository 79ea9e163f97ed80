"""How batches, claims and retries end; reverting a retry."""

from collections.abc import Sequence

from retrier.domain.decision import Manual
from retrier.domain.failed_message import Move, RetryEnd
from retrier.domain.retry_batch import Ejected, RetryBatch
from retrier.store.engine.transaction import StoredRow, Transaction
from retrier.store.tables import (
    claims,
    ended_retries,
    event_log,
    failed_messages,
    now_forwarding,
    retry_batches,
    retry_operations,
)
from retrier.store.tables.event_log import Entry


def end_claims(tx: Transaction, numbers: Sequence[int], how: RetryEnd) -> Sequence[StoredRow]:
    """Delete the claims of these messages, keep the stamped ones as ended; return their rows."""
    if not numbers:
        return []
    ended = claims.end(tx, numbers)
    ended_retries.keep(tx, ended, how)
    return ended


def end_unrecorded_claims(
    tx: Transaction, batch_id: str, numbers: Sequence[int], how: RetryEnd
) -> Sequence[StoredRow]:
    """Do so for the unrecorded claims that this batch has of these messages."""
    if not numbers:
        return []
    ended = claims.end_unrecorded(tx, batch_id, numbers)
    ended_retries.keep(tx, ended, how)
    return ended


def end_batch(tx: Transaction, batch_id: str) -> None:
    """Delete a batch that is done or has no claims left, and the pointer if that names it."""
    now_forwarding.clear(tx, batch_id)
    retry_batches.remove(tx, batch_id)


def revert(tx: Transaction, batch: RetryBatch, ejected: Sequence[Ejected]) -> int:
    """End the claims of these messages and give them new failure numbers; return how many.

    A new number is above every cut-off taken so far: the operation that failed to send the message
    does not pick it up again. A message whose claim is gone is not changed. The caller must share
    the cut-off and lock the messages before.
    """
    items = {item.number: item for item in ejected}
    ended = end_unrecorded_claims(tx, batch.batch_id, sorted(items), RetryEnd.REVERTED)
    if not ended:
        return 0
    back = [items[claim.number] for claim in ended]
    failed_messages.become_unresolved(
        tx, Move.REVERTED, {item.number: Manual(why=item.reason) for item in back}
    )
    retry_operations.count_failed(tx, batch.operation_id, len(back), back[-1].reason)
    event_log.append(tx, [_event(batch, item) for item in back])
    return len(back)


def _event(batch: RetryBatch, item: Ejected) -> Entry:
    return Entry(
        kind="retry_returned",
        text=f"{item.unique_message_id}: unresolved again: {item.reason}",
        unique_message_id=item.unique_message_id,
        operation_id=batch.operation_id,
        batch_id=batch.batch_id,
    )
