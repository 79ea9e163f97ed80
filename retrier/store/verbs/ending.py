"""Ends of retries and batches: what is deleted, and what is kept and counted of it."""

from collections.abc import Sequence

from retrier.domain.failed_message import RetryEnd
from retrier.store.engine.transaction import StoredRow, Transaction
from retrier.store.tables import claims, ended_retries, now_forwarding, retry_batches


def end_claims(tx: Transaction, numbers: Sequence[int], how: RetryEnd) -> Sequence[StoredRow]:
    """End the claims of these messages; return their rows, and keep what was sent."""
    if not numbers:
        return []
    ended = claims.end(tx, numbers)
    ended_retries.keep(tx, ended, how)
    return ended


def end_unrecorded_claims(
    tx: Transaction, batch_id: str, numbers: Sequence[int], how: RetryEnd
) -> Sequence[StoredRow]:
    """End those of these claims that are of this batch and not recorded; return their rows."""
    if not numbers:
        return []
    ended = claims.end_unrecorded(tx, batch_id, numbers)
    ended_retries.keep(tx, ended, how)
    return ended


def end_batch(tx: Transaction, batch_id: str) -> None:
    """Delete a batch that is done or has nothing left, and the pointer if it names it."""
    now_forwarding.clear(tx, batch_id)
    retry_batches.remove(tx, batch_id)
