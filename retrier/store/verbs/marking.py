"""Marking: the next messages of the operation whose turn it is become the claims of a batch.

On PostgreSQL a cut is one transaction, and the batch is added in Staging (decision 0027). For
several named ids (0030), and on SQLite, each verb commits by itself: a crash between them leaves a
batch in Marking, which is adopted.
"""

from dataclasses import dataclass
from uuid import uuid4

from retrier.domain.retry_batch import RetryBatchStatus
from retrier.domain.retry_operation import RetryOperation
from retrier.store.engine.database import Database, reading
from retrier.store.engine.transaction import Transaction
from retrier.store.queries import cuts
from retrier.store.queries.cuts import Cut
from retrier.store.queries.next_work import find_next
from retrier.store.tables import claims, event_log, retry_batches, retry_operations
from retrier.store.tables import retry_operation_messages as named
from retrier.store.tables.event_log import Entry
from retrier.store.verbs.completing import complete_operation
from retrier.store.verbs.leases import Fence, fenced
from retrier.store.verbs.retry_ends import end_batch


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedBatch:
    """A new batch in Marking, and the operation that it is cut from."""

    batch_id: str
    operation: RetryOperation


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkedBatch:
    """The result of a cut; `completed`: it found nothing and completed the operation."""

    batch_id: str
    operation_id: str
    claimed: int
    skipped: int
    completed: bool


def open_batch(db: Database, fence: Fence, session_id: str) -> OpenedBatch | MarkedBatch | None:
    """Open a batch for the operation whose turn it is; None when nothing may be cut.

    By priority, then the operation cut longest ago: a bulk of a million starves nobody. Nothing
    is cut while a batch waits in Staging. Returns a MarkedBatch if the cut is done already, in
    this one transaction. Raises LeaseLost, DatabaseUnavailable.
    """
    # Look without a lock first: `_open_batch` writes the lease, even with nothing to do.
    return _open_batch(db, fence, session_id) if _is_any_open(db) else None


@fenced
def claim_messages(tx: Transaction, opened: OpenedBatch) -> MarkedBatch:
    """Take the batch's claims, move the operation's floor, and count what was skipped.

    One transaction: the floor never passes a message that is neither claimed here nor by another
    retry. Raises LeaseLost, DatabaseUnavailable.
    """
    operation = opened.operation
    cut, claimed = _take(tx, opened.batch_id, operation)
    retry_batches.resize(tx, opened.batch_id, claimed)
    _note(tx, operation, cut, claimed)
    if cut.is_empty:
        end_batch(tx, opened.batch_id)
        complete_operation(tx, operation.operation_id)
    return _marked(opened.batch_id, operation, cut, claimed)


@fenced
def move_to_staging(tx: Transaction, batch_id: str) -> int:
    """Move a batch from Marking to Staging with the claims it has; delete it if it has none.

    This ends Marking, and it also adopts an orphan. Returns how many claims the batch has. Raises
    LeaseLost, DatabaseUnavailable.
    """
    size = claims.count(tx, batch_id)
    if size:
        retry_batches.move(tx, batch_id, RetryBatchStatus.STAGING, initial_size=size)
    else:
        end_batch(tx, batch_id)
    return size


@reading
def _is_any_open(tx: Transaction) -> bool:
    return find_next(tx) is not None


@fenced
def _open_batch(tx: Transaction, session_id: str) -> OpenedBatch | MarkedBatch | None:
    operation = find_next(tx)
    if operation is None:
        return None
    batch_id = str(uuid4())
    row: dict[str, object] = {
        "batch_id": batch_id,
        "operation_id": operation.operation_id,
        "session_id": session_id,
    }
    if tx.sql.marks_at_once and (operation.selection.ids is None or operation.total == 1):
        return _mark_at_once(tx, operation, row)
    retry_operations.begin_cut(tx, operation)
    retry_batches.add(tx, row)
    return OpenedBatch(batch_id=batch_id, operation=operation)


def _mark_at_once(
    tx: Transaction, operation: RetryOperation, row: dict[str, object]
) -> MarkedBatch:
    """Cut in this one transaction: claims first, then the batch, then the operation.

    Ingestion counts at the operation while it holds claims: another order here would deadlock.
    """
    batch_id = str(row["batch_id"])
    cut, claimed = _take(tx, batch_id, operation)
    if claimed:
        staging = {"status": RetryBatchStatus.STAGING, "initial_size": claimed}
        retry_batches.add(tx, {**row, **staging})
    retry_operations.begin_cut(tx, operation)
    _note(tx, operation, cut, claimed)
    if cut.is_empty:
        complete_operation(tx, operation.operation_id)
    return _marked(batch_id, operation, cut, claimed)


def _take(tx: Transaction, batch_id: str, operation: RetryOperation) -> tuple[Cut, int]:
    """Claim the next messages, except those that another retry has claimed meanwhile."""
    tx.sql.force_index_order(tx.conn)
    cut = cuts.look(tx, operation)
    claimed = claims.take(tx, batch_id, operation.operation_id, cut.eligible)
    return cuts.look_again(tx, operation, cut, claimed), len(claimed)


def _note(tx: Transaction, operation: RetryOperation, cut: Cut, claimed: int) -> None:
    """Move the floor; store the reason for each skipped id, in its row and as an event."""
    operation_id = operation.operation_id
    retry_operations.note_cut(
        tx,
        operation_id,
        floor=cut.floor,
        skipped=len(cut.skipped),
        batches=1 if claimed else 0,
    )
    for reason in sorted(set(cut.skipped.values())):
        ids = [unique_id for unique_id, why in cut.skipped.items() if why == reason]
        named.note_skipped(tx, operation_id, ids, reason)
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


def _marked(batch_id: str, operation: RetryOperation, cut: Cut, claimed: int) -> MarkedBatch:
    return MarkedBatch(
        batch_id=batch_id,
        operation_id=operation.operation_id,
        claimed=claimed,
        skipped=len(cut.skipped),
        completed=cut.is_empty,
    )
