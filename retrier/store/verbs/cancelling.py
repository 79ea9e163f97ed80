"""Cancelling: the claims of an operation under which nothing was sent are released."""

from collections.abc import Sequence

from sqlalchemy import bindparam, select

from retrier.domain.decision import Manual
from retrier.domain.failed_message import FailedMessageStatus, Move
from retrier.domain.retry_batch import RetryBatch
from retrier.store.engine.transaction import StoredRow, Transaction
from retrier.store.schema import failed_message_retries, failed_messages, retry_operations
from retrier.store.tables import claims, event_log, message_locks
from retrier.store.tables import failed_messages as messages
from retrier.store.tables import retry_operation_messages as named
from retrier.store.tables import retry_operations as operations
from retrier.store.tables.event_log import Entry
from retrier.store.verbs.leases import fenced
from retrier.store.verbs.retry_ends import end_batch

CANCELLED = "its operation was cancelled before it was sent"

_CANCEL_ASKED = select(retry_operations.c.cancel_asked).where(
    retry_operations.c.operation_id == bindparam("operation")
)


@fenced
def release_batch(tx: Transaction, batch: RetryBatch) -> bool:
    """Release the unstamped claims of a batch whose operation is to be cancelled.

    Returns whether the batch is ended, because no claim is left that has to be sent and recorded.
    A claim that is stamped stays: its message may have been sent. Raises LeaseLost,
    DatabaseUnavailable.
    """
    release_unstamped(tx, batch)
    if claims.count_unrecorded(tx, batch.batch_id):
        return False
    end_batch(tx, batch.batch_id)
    return True


def is_cancel_asked(tx: Transaction, operation_id: str) -> bool:
    """Return whether a person has cancelled this operation."""
    return bool(tx.execute(_CANCEL_ASKED, {"operation": operation_id}).scalar_one())


def release_unstamped(tx: Transaction, batch: RetryBatch) -> int:
    """Take the unstamped claims of a batch away; return how many.

    A message that is still unresolved keeps its failure number. One that is *retry issued* becomes
    unresolved under a new number, above every cut-off: no operation that was asked for earlier takes
    it. Shares the cut-off, and locks messages and claims: of all rows, the caller may have locked
    only the lease.
    """
    numbers = sorted(claims.list_unstamped(tx, batch.batch_id))
    if not numbers:
        return 0
    tx.sql.share_cut_off(tx.conn)
    message_locks.lock(tx, numbers)
    mine = {claim.number: claim for claim in claims.lock(tx, numbers)}
    # Only the processor takes and stamps claims, but a person or an outcome may have ended some.
    freed = [number for number in numbers if _is_mine(mine.get(number), batch)]
    _free(tx, freed)
    claims.drop(tx, freed)
    operations.count_skipped(tx, batch.operation_id, len(freed))
    named.note_dropped(tx, batch.operation_id, freed, CANCELLED)
    released = Entry(
        kind="batch_released",
        text=f"{len(freed)} messages left their batch: {CANCELLED}",
        operation_id=batch.operation_id,
        batch_id=batch.batch_id,
    )
    event_log.append(tx, [released])
    return len(freed)


def _is_mine(claim: StoredRow | None, batch: RetryBatch) -> bool:
    return claim is not None and claim.batch_id == batch.batch_id and claim.sending_since is None


def _free(tx: Transaction, numbers: Sequence[int]) -> None:
    """Make unresolved again what this claim made *retry issued*."""
    rows, mine = failed_messages.c, failed_message_retries.c
    query = (
        select(rows.number)
        .join_from(failed_messages, failed_message_retries, mine.number == rows.number)
        .where(
            tx.sql.member(rows.number, numbers),
            rows.status == FailedMessageStatus.RETRY_ISSUED,
            rows.last_retry_id == mine.retry_id,
        )
    )
    issued = tx.execute(query).scalars().all()
    why = Manual(why=CANCELLED)
    messages.become_unresolved(tx, Move.REVERTED, dict.fromkeys(issued, why))
