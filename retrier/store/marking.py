"""Marking: the next messages of the operation whose turn it is become the claims of a batch.

On PostgreSQL a cut is one transaction, and the batch is added in Staging (decision 0027). For
several named ids (0030), and on SQLite, each step commits by itself: a crash between them leaves a
batch in Marking, which is adopted.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from uuid import uuid4

from sqlalchemy import select

from retrier.domain.access import NOT_YOURS, QueuePatterns
from retrier.domain.identity import canonical, is_guid
from retrier.domain.retry_batch import RetryBatch, RetryBatchStatus
from retrier.domain.retry_operation import (
    CanaryState,
    Priority,
    RetryOperation,
    RetryType,
    next_cut,
)
from retrier.domain.streams import LOOK_AT_ALL, HeldLooks
from retrier.domain.text import count_messages
from retrier.domain.values import dataclass
from retrier.store import batches, breakers, claims, cuts, event_log, operations
from retrier.store.cuts import UNKNOWN_ID, Cut, why_not
from retrier.store.engine.transaction import StoredRow, Transaction
from retrier.store.event_log import Entry
from retrier.store.holds import (
    describe_held,
    find_mark,
    hold_by_streams,
    is_any_strict,
    lock_not_closed,
)
from retrier.store.judging import mend_standing
from retrier.store.lease import fenced
from retrier.store.processor_work import (
    PLAIN_TURNS,
    CutForecast,
    Turns,
    as_cut,
    find_next,
)
from retrier.store.retry_ends import (
    CanaryHeld,
    CanaryJudged,
    CancelledOperation,
    CutEnd,
    conclude,
    end_batch,
    end_cancelled,
    judge_canary,
)
from retrier.store.schedule import LeftOut, WhatHolds, hold_nothing, join_left_out
from retrier.store.schema import failed_message_retries, failed_messages
from retrier.store.selections import find_foreign

messages = failed_messages.c
claim_columns = failed_message_retries.c


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedBatch:
    """A new batch in Marking, and the operation that it is cut from; `mark`: see HeldLooks.

    `sight` is what was seen before of what it will take.
    """

    batch_id: str
    operation: RetryOperation
    mark: str | None = None
    sight: CutForecast | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkedBatch:
    """The result of a cut; `end` is what follows if it found nothing, else None.

    `mark`: see HeldLooks. `batch` is in Staging already; None if there is none, or if it is moved
    there by a transaction of its own.
    """

    batch_id: str
    operation_id: str
    priority: Priority
    claimed: int
    skipped: int
    end: CutEnd | None
    mark: str | None = None
    batch: RetryBatch | None = None


def make_marked(
    opened: OpenedBatch,
    cut: Cut,
    claimed: int,
    end: CutEnd | None,
    batch: RetryBatch | None = None,
) -> MarkedBatch:
    """Return what a cut of this opened batch came to."""
    return MarkedBatch(
        batch_id=opened.batch_id,
        operation_id=opened.operation.operation_id,
        priority=opened.operation.priority,
        claimed=claimed,
        skipped=len(cut.skipped),
        end=end,
        mark=opened.mark,
        batch=batch,
    )


NOTHING = Cut(eligible={}, floor=0)


Opened = OpenedBatch | MarkedBatch | CanaryJudged | CanaryHeld | CancelledOperation
"""What one turn made of an operation."""


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
    batches.resize(tx, opened.batch_id, claimed)
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
            f"{left} is adopted with its {count_messages(size)}"
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
    return size, batches.move(tx, batch_id, RetryBatchStatus.STAGING, initial_size=size)


@fenced
def cut_batch(
    tx: Transaction,
    session_id: str,
    what_holds: WhatHolds = hold_nothing,
    turns: Turns = PLAIN_TURNS,
    held: HeldLooks = LOOK_AT_ALL,
    sight: CutForecast | None = None,
) -> Opened | None:
    """Open a batch for the operation whose turn it is; None when nothing may be cut.

    By priority and `turns`, then the operation cut longest ago: a bulk starves nobody. Nothing
    is cut while a batch waits in Staging. Returns a MarkedBatch if the cut is done already, in
    this one transaction. Instead of a cut, an operation may be ended that was cancelled, or the
    canary of one be judged. `sight` is what was seen before of what it will take. Writes the
    lease, even with nothing to do: look before if there is. Raises LeaseLost, DatabaseUnavailable.
    """
    operation = find_next(tx, bulk_first=turns.bulk_first)
    if operation is None:
        mend_standing(tx)
        return None
    if operation.cancel_asked:
        return end_cancelled(tx, operation)
    if operation.canary is not None and operation.canary.state is CanaryState.WAITING:
        return judge_canary(tx, operation, operation.canary)
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
            operations.pass_over(tx, operation.operation_id, operation.reason, at)
            return make_marked(opened, NOTHING, 0, CutEnd.UNCHANGED)
    row: dict[str, object] = {
        "batch_id": opened.batch_id,
        "operation_id": operation.operation_id,
        "session_id": session_id,
    }
    if tx.sql.marks_at_once and (operation.selection.ids is None or operation.total == 1):
        return _mark_at_once(tx, opened, row, what_holds, held)
    _begin_cut(tx, opened.operation)
    batches.add(tx, row)
    return opened


def _begin_cut(tx: Transaction, operation: RetryOperation) -> None:
    """Begin a cut; of one that was passed over, at the beginning of its selection."""
    if operation.passed_over:
        operations.look_again(tx, operation.operation_id)
    operations.begin_cut(tx, operation)


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
    batch = None
    if claimed:
        staging = {"status": RetryBatchStatus.STAGING, "initial_size": claimed}
        batch = batches.add(tx, {**row, **staging})
    _begin_cut(tx, operation)
    note_cut(tx, operation, cut, claimed)
    end = _conclude(tx, operation, cut, left_out, held)
    return make_marked(opened, cut, claimed, end, batch)


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
        operations.remember_retries(tx, operation.operation_id, claimed)
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


def note_cut(tx: Transaction, operation: RetryOperation, cut: Cut, claimed: int) -> None:
    """Move the floor; store the reason for each skipped id, in its row and as an event."""
    operation_id = operation.operation_id
    # No batch of it is alive: what it had claimed and not sent has dropped out.
    dropped = operation.remaining if operation.retry_type is RetryType.BY_POLICY else 0
    operations.note_cut(
        tx,
        operation,
        floor=cut.floor,
        skipped=len(cut.skipped) + dropped,
        claimed=claimed,
    )
    if operation.rate is not None:
        due = next_cut(operation.next_cut, tx.now, claimed, operation.rate)
        operations.put_off(tx, operation_id, due)
    if cut.left_out:
        operations.count_left_out(tx, operation_id, cut.left_out)
    operations.note_skipped(tx, operation_id, cut.skipped)
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


def look_up_named(tx: Transaction, ids: Iterable[str]) -> Mapping[str, StoredRow]:
    """Return the messages with these ids, each with its claim if it has one, by the id given."""
    wanted = {unique_id: canonical(unique_id) for unique_id in ids if is_guid(unique_id)}
    if not wanted:
        return {}
    query = (
        select(
            messages.unique_message_id,
            messages.number,
            messages.status,
            messages.failure_seq,
            claim_columns.retry_id,
        )
        .outerjoin_from(
            failed_messages, failed_message_retries, claim_columns.number == messages.number
        )
        .where(tx.sql.member(messages.unique_message_id, sorted({*wanted.values()})))
    )
    found = {row.unique_message_id: row for row in tx.execute(query)}
    return {unique_id: found[key] for unique_id, key in wanted.items() if key in found}


def judge_named(
    tx: Transaction,
    ids: Sequence[str],
    found: Mapping[str, StoredRow],
    cut_off: int,
    within: QueuePatterns | None,
) -> Mapping[str, str]:
    """Return why some of these ids cannot be retried as things are, as their cut would judge."""
    numbers = _numbers(found)
    held: Mapping[int, str] = describe_held(tx, numbers) if is_any_strict(tx) else {}
    held = {**held, **dict.fromkeys(find_foreign(tx, within, numbers), NOT_YOURS)}
    reasons = {
        key: why_not(found[key], cut_off) or held.get(found[key].number)
        if key in found
        else UNKNOWN_ID
        for key in ids
    }
    return {key: why for key, why in reasons.items() if why is not None}


def _numbers(found: Mapping[str, StoredRow]) -> Sequence[int]:
    return sorted({row.number for row in found.values()})
