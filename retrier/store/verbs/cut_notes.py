"""What is noted of a cut: how far it came, which named messages it skipped and why, its trials."""

from collections.abc import Sequence

from retrier.domain.retry_operation import RetryOperation, RetryType, next_cut
from retrier.store.engine.transaction import Transaction
from retrier.store.queries.cuts import Cut
from retrier.store.queries.left_out import LeftOut
from retrier.store.tables import breakers, event_log, retry_operations
from retrier.store.tables import retry_operation_messages as named
from retrier.store.tables.event_log import Entry


def note_cut(tx: Transaction, operation: RetryOperation, cut: Cut, claimed: int) -> None:
    """Move the floor; store the reason for each skipped id, in its row and as an event."""
    operation_id = operation.operation_id
    # No batch of it is alive: what it had claimed and not sent has dropped out.
    dropped = operation.remaining if operation.retry_type is RetryType.BY_POLICY else 0
    retry_operations.note_cut(
        tx,
        operation,
        floor=cut.floor,
        skipped=len(cut.skipped) + dropped,
        claimed=claimed,
    )
    if operation.rate is not None:
        due = next_cut(operation.next_cut, tx.now, claimed, operation.rate)
        retry_operations.put_off(tx, operation_id, due)
    if cut.left_out:
        retry_operations.count_left_out(tx, operation_id, cut.left_out)
    named.note_skipped(tx, operation_id, cut.skipped)
    skipped = [
        Entry(
            kind="retry_skipped",
            text=f"{unique_id}: not retried: {reason}",
            who=operation.requested_by,
            unique_message_id=unique_id[:36],
            operation_id=operation_id,
        )
        for unique_id, reason in cut.skipped.items()
    ]
    event_log.append(tx, skipped)


def begin_trials(tx: Transaction, batch_id: str, left_out: LeftOut, claimed: Sequence[int]) -> None:
    """Note which claimed messages try a half-open breaker."""
    taken = set(claimed)
    begun = {key: number for key, number in left_out.trials.items() if number in taken}
    breakers.begin_trials(tx, batch_id, begun)
