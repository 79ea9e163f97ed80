"""Messages taken back out of a retry: unresolved again, claim gone, with the reason."""

from collections.abc import Sequence

from retrier.domain.decision import Manual
from retrier.domain.failed_message import Move, RetryEnd
from retrier.domain.retry_batch import Ejected, RetryBatch
from retrier.store.engine.transaction import Transaction
from retrier.store.tables import event_log, failed_messages, retry_operations
from retrier.store.tables.event_log import Event
from retrier.store.verbs.ending import end_unrecorded_claims


def take_back(tx: Transaction, batch: RetryBatch, ejected: Sequence[Ejected]) -> int:
    """End the claims of these messages and give them a new failure number; return how many.

    The new number puts them above every cut-off taken so far: the operation that failed to
    send them does not pick them up again. One whose claim is gone already is left alone. The
    caller has shared the cut-off and locked the messages.
    """
    items = {item.number: item for item in ejected}
    ended = end_unrecorded_claims(tx, batch.batch_id, sorted(items), RetryEnd.REVERTED)
    if not ended:
        return 0
    back = [items[claim.number] for claim in ended]
    failed_messages.become_unresolved(
        tx, Move.TAKEN_BACK, {item.number: Manual(why=item.reason) for item in back}
    )
    retry_operations.count_failed(tx, batch.operation_id, len(back))
    event_log.append(tx, [_event(batch, item) for item in back])
    return len(back)


def _event(batch: RetryBatch, item: Ejected) -> Event:
    return Event(
        kind="retry_returned",
        text=f"{item.unique_message_id}: unresolved again: {item.reason}",
        unique_message_id=item.unique_message_id,
        operation_id=batch.operation_id,
        batch_id=batch.batch_id,
    )
