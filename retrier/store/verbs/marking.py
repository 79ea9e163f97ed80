"""Marking: the next messages of the operation whose turn it is become the claims of a batch.

On PostgreSQL a cut is one transaction, and the batch is added in Staging (decision 0027). For
several named ids (0030), and on SQLite, each verb commits by itself: a crash between them leaves a
batch in Marking, which is adopted.
"""

from dataclasses import replace
from uuid import uuid4

from retrier.domain.retry_batch import RetryBatch, RetryBatchStatus
from retrier.domain.retry_operation import CanaryState, RetryOperation, RetryType
from retrier.domain.streams import LOOK_AT_ALL, HeldLooks
from retrier.store.engine.database import Database
from retrier.store.engine.transaction import Transaction
from retrier.store.queries import cuts
from retrier.store.queries.breaker_holds import lock_not_closed
from retrier.store.queries.cuts import Cut
from retrier.store.queries.left_out import LeftOut, WhatHolds, hold_nothing, join_left_out
from retrier.store.queries.next_cut import PLAIN_TURNS, Sight, Turns, as_cut
from retrier.store.queries.next_work import find_next, look_ahead
from retrier.store.queries.stream_order import find_mark, hold_by_streams
from retrier.store.tables import claims, event_log, retry_batches, retry_operations
from retrier.store.tables import retry_operation_canaries as canaries
from retrier.store.tables.event_log import Entry
from retrier.store.verbs.canaries import CanaryHeld, CanaryJudged, judge
from retrier.store.verbs.cut_notes import begin_trials, note_cut
from retrier.store.verbs.leases import Fence, fenced
from retrier.store.verbs.marked import MarkedBatch, OpenedBatch, make_marked
from retrier.store.verbs.retry_ends import (
    CancelledOperation,
    CutEnd,
    conclude,
    end_batch,
    end_cancelled,
)
from retrier.store.verbs.standing import mend_standing

NOTHING = Cut(eligible={}, floor=0)


Opened = OpenedBatch | MarkedBatch | CanaryJudged | CanaryHeld | CancelledOperation
"""What one turn made of an operation."""


def open_batch(
    db: Database,
    fence: Fence,
    session_id: str,
    what_holds: WhatHolds = hold_nothing,
    turns: Turns = PLAIN_TURNS,
    held: HeldLooks = LOOK_AT_ALL,
) -> Opened | None:
    """Open a batch for the operation whose turn it is; None when nothing may be cut.

    By priority and `turns`, then the operation cut longest ago: a bulk starves nobody. Nothing
    is cut while a batch waits in Staging. Returns a MarkedBatch if the cut is done already, in
    this one transaction. Instead of a cut, an operation may be ended that was cancelled, or the
    canary of one be judged. Raises LeaseLost, DatabaseUnavailable.
    """
    # Look without a lock first: `cut_batch` writes the lease, even with nothing to do.
    if not look_ahead(db).may_cut:
        return None
    return cut_batch(db, fence, session_id, what_holds, turns, held)


@fenced
def claim_messages(
    tx: Transaction,
    opened: OpenedBatch,
    what_holds: WhatHolds = hold_nothing,
    held: HeldLooks = LOOK_AT_ALL,
) -> MarkedBatch:
    """Take the batch's claims, move the operation's floor, and count what was skipped.

    One transaction: the floor never passes a message that is neither claimed here nor by another
    retry. Raises LeaseLost, DatabaseUnavailable.
    """
    operation = opened.operation
    found, left_out = _look(tx, opened, what_holds)
    cut, claimed = _take(tx, opened.batch_id, operation, found, left_out)
    retry_batches.resize(tx, opened.batch_id, claimed)
    note_cut(tx, operation, cut, claimed)
    if cut.is_empty:
        end_batch(tx, opened.batch_id)
    end = _conclude(tx, operation, cut, left_out, held)
    return make_marked(opened, cut, claimed, end)


@fenced
def move_to_staging(tx: Transaction, batch_id: str) -> int:
    """Move a batch from Marking to Staging with the claims it has; delete it if it has none.

    This ends Marking. Returns how many claims the batch has. Raises LeaseLost, DatabaseUnavailable.
    """
    return _move(tx, batch_id)[0]


@fenced
def adopt(tx: Transaction, batch: RetryBatch) -> int | None:
    """Do so with an orphan, and tell it in the event log; None if it was in Marking no longer.

    Raises LeaseLost, DatabaseUnavailable.
    """
    size, moved = _move(tx, batch.batch_id)
    if not moved:
        return None
    left = "a batch that a stop or an error had left in Marking"
    adopted = Entry(
        kind="batch_adopted",
        text=(
            f"{left} is adopted with its {size} messages"
            if size
            else f"{left} had no messages yet: it is deleted, and its operation goes on"
        ),
        operation_id=batch.operation_id,
        batch_id=batch.batch_id,
        details={"size": size, "session_id": batch.session_id},
    )
    event_log.append(tx, [adopted])
    return size


def _move(tx: Transaction, batch_id: str) -> tuple[int, bool]:
    """Return how many claims the batch has, and whether this call moved or deleted it."""
    size = claims.count(tx, batch_id)
    if size == 0:
        end_batch(tx, batch_id)
        return 0, True
    return size, retry_batches.move(tx, batch_id, RetryBatchStatus.STAGING, initial_size=size)


@fenced
def cut_batch(
    tx: Transaction,
    session_id: str,
    what_holds: WhatHolds = hold_nothing,
    turns: Turns = PLAIN_TURNS,
    held: HeldLooks = LOOK_AT_ALL,
    sight: Sight | None = None,
) -> Opened | None:
    """Do so without a look before, or with what was seen of the operation whose turn it is.

    Raises LeaseLost, DatabaseUnavailable.
    """
    operation = find_next(tx, bulk_first=turns.bulk_first)
    if operation is None:
        mend_standing(tx)
        return None
    if operation.cancel_asked:
        return end_cancelled(tx, operation)
    if operation.canary is not None and operation.canary.state is CanaryState.WAITING:
        return judge(tx, operation, operation.canary)
    opened = OpenedBatch(
        batch_id=str(uuid4()),
        operation=as_cut(operation, turns),
        sight=sight if sight is not None and sight.operation == operation else None,
    )
    if operation.passed_over:
        # What becomes due leaves no mark: what is due by policy is looked at each time.
        by_policy = operation.retry_type is RetryType.BY_POLICY
        seen = None if opened.sight is None else opened.sight.mark
        opened = replace(opened, mark=None if by_policy else seen or find_mark(tx))
        if opened.mark is not None and opened.mark == held.marks.get(operation.operation_id):
            at = tx.now + held.after
            retry_operations.pass_over(tx, operation.operation_id, operation.reason, at)
            return make_marked(opened, NOTHING, 0, CutEnd.UNCHANGED)
    row: dict[str, object] = {
        "batch_id": opened.batch_id,
        "operation_id": operation.operation_id,
        "session_id": session_id,
    }
    if tx.sql.marks_at_once and (operation.selection.ids is None or operation.total == 1):
        return _mark_at_once(tx, opened, row, what_holds, held)
    _begin_cut(tx, opened.operation)
    retry_batches.add(tx, row)
    return opened


def _begin_cut(tx: Transaction, operation: RetryOperation) -> None:
    """Begin a cut; of one that was passed over, at the beginning of its selection."""
    if operation.passed_over:
        retry_operations.look_again(tx, operation.operation_id)
    retry_operations.begin_cut(tx, operation)


def _look(
    tx: Transaction, opened: OpenedBatch, what_holds: WhatHolds
) -> tuple[Cut, LeftOut | None]:
    """Return what was seen before, if it is so still; else look now, with the lease held."""
    operation, sight = opened.operation, opened.sight
    # Locked, and so compared: who closes one waits for this cut, and finds what it has left out.
    if sight is not None and (not sight.breakers or lock_not_closed(tx) == sight.breakers):
        return sight.cut, sight.left_out
    left_out = join_left_out(what_holds(tx, operation), hold_by_streams(tx))
    tx.sql.force_index_order(tx.conn)
    return cuts.look(tx, operation, left_out), left_out


def _mark_at_once(
    tx: Transaction,
    opened: OpenedBatch,
    row: dict[str, object],
    what_holds: WhatHolds,
    held: HeldLooks,
) -> MarkedBatch:
    """Cut in this one transaction: claims first, then the batch, then the operation.

    Ingestion counts at the operation while it holds claims: another order here would deadlock.
    """
    batch_id, operation = opened.batch_id, opened.operation
    found, left_out = _look(tx, opened, what_holds)
    cut, claimed = _take(tx, batch_id, operation, found, left_out)
    if claimed:
        staging = {"status": RetryBatchStatus.STAGING, "initial_size": claimed}
        retry_batches.add(tx, {**row, **staging})
    _begin_cut(tx, operation)
    note_cut(tx, operation, cut, claimed)
    end = _conclude(tx, operation, cut, left_out, held)
    return make_marked(opened, cut, claimed, end)


def _take(
    tx: Transaction,
    batch_id: str,
    operation: RetryOperation,
    cut: Cut,
    left_out: LeftOut | None,
) -> tuple[Cut, int]:
    """Claim the next messages, except those that another retry has claimed meanwhile."""
    claimed = claims.take(tx, batch_id, operation.operation_id, cut.eligible)
    if operation.canary is not None and operation.canary.state is CanaryState.SENDING:
        canaries.remember(tx, operation.operation_id, claimed)
    if left_out is not None:
        begin_trials(tx, batch_id, left_out, claimed)
    return cuts.look_again(tx, operation, cut, claimed), len(claimed)


def _conclude(
    tx: Transaction,
    operation: RetryOperation,
    cut: Cut,
    left_out: LeftOut | None,
    held: HeldLooks,
) -> CutEnd | None:
    return conclude(tx, operation, cut, left_out, held.after) if cut.is_empty else None
