"""How operations, batches, claims and retries end; reverting a retry."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum

from sqlalchemy import select

from retrier.domain.decision import Decided
from retrier.domain.failed_message import RetryEnd
from retrier.domain.retry_batch import Ejected, RetryBatch, room_for
from retrier.domain.retry_operation import CanaryState, RetryOperation, RetryType
from retrier.policy.policy_set import Judge
from retrier.store.engine.database import writing
from retrier.store.engine.transaction import StoredRow, Transaction
from retrier.store.queries.cuts import Cut
from retrier.store.queries.due import find_next_due
from retrier.store.queries.left_out import LeftOut, find_reasons
from retrier.store.queries.operations import columns
from retrier.store.tables import (
    claims,
    ended_retries,
    event_log,
    failed_messages,
    message_texts,
    now_forwarding,
    retry_batches,
    retry_operations,
)
from retrier.store.tables.event_log import Entry
from retrier.store.tables.processing_attempts import Columns, judged_columns
from retrier.store.verbs.breaker_counting import count_reverted
from retrier.store.verbs.canaries import wait_for
from retrier.store.verbs.judging import JudgedMessage, follow_up, judge_reverts

_HELD_LOOK = timedelta(seconds=1)
"""How long what is due waits before a further look, if all of it is held."""
_SHORTEST_LOOK = timedelta(seconds=0.2)
"""How long it waits at least, if something else becomes due before."""


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


def revert(
    tx: Transaction, batch: RetryBatch, ejected: Sequence[Ejected], judge: Judge
) -> Sequence[Decided]:
    """End the claims of these messages, judge them, and give them new failure numbers.

    A new number is above every cut-off taken so far: the operation that failed to send the message
    does not pick it up again. Nor does the next cut of what is due, because the time at which a
    policy retries it is a new one. A message whose claim is gone is not changed. The caller must
    share the cut-off and lock the messages before. Returns what was decided.
    """
    items = {item.number: item for item in ejected}
    ended = end_unrecorded_claims(tx, batch.batch_id, sorted(items), RetryEnd.REVERTED)
    if not ended:
        return ()
    if any(claim.breaker_id is not None for claim in ended):
        count_reverted(tx, ended, items)
    back = [items[claim.number] for claim in ended]
    policies = judge.in_force()
    judged = judge_reverts(tx, batch, {each.number: each for each in back}, policies, judge.dice)
    failed_messages.revert(tx, _columns_of(tx, judged))
    decided = follow_up(tx, judged, policies, batch)
    retry_operations.count_failed(tx, batch.operation_id, len(back), back[-1].reason)
    event_log.append(tx, [_event(batch, item) for item in back])
    return decided


def _columns_of(tx: Transaction, judged: Sequence[JudgedMessage]) -> Mapping[int, Columns]:
    """Return what is judged, and the texts that say so: a message is found by its reason, too."""
    decided = {each.number: judged_columns(each.judgement, each.failures) for each in judged}
    reasons = {each.number: each.judgement.reason for each in judged}
    texts = message_texts.classify_anew(tx, reasons)
    return {number: {**each, "text_id": texts.get(number)} for number, each in decided.items()}


def _event(batch: RetryBatch, item: Ejected) -> Entry:
    return Entry(
        kind="retry_returned",
        text=f"{item.unique_message_id}: unresolved again: {item.reason}",
        unique_message_id=item.unique_message_id,
        operation_id=batch.operation_id,
        batch_id=batch.batch_id,
    )


class CutEnd(Enum):
    """What follows from a cut that found nothing.

    COMPLETED    the operation is done.
    CANARY_SENT  its first messages are sent, and it waits for what becomes of them.
    PASSED_OVER  only messages are left that something else holds.
    UNCHANGED    they are held as before: nothing has changed that could have freed one.
    NOTHING_DUE  the standing operation waits until something is.
    BEGUN_ANEW   it had left messages out that nothing holds any more, and looks for them again.
    STOPPED      it was paused or cancelled meanwhile.
    """

    COMPLETED = "completed"
    CANARY_SENT = "canary sent"
    PASSED_OVER = "passed over"
    UNCHANGED = "unchanged"
    NOTHING_DUE = "nothing due"
    BEGUN_ANEW = "begun anew"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelledOperation:
    """An operation that was cancelled and has ended: nothing of it is on its way."""

    operation_id: str


def conclude(
    tx: Transaction,
    operation: RetryOperation,
    cut: Cut,
    left_out: LeftOut | None,
    looks_again_after: timedelta,
) -> CutEnd:
    """Do what follows from an empty cut; no batch of the operation may be left."""
    operation_id, canary = operation.operation_id, operation.canary
    if operation.retry_type is RetryType.BY_POLICY:
        if cut.left_out:
            _hold_standing(tx, operation, left_out)
        return CutEnd.NOTHING_DUE if retry_operations.rest(tx, operation_id) else CutEnd.STOPPED
    if canary is not None and canary.state is CanaryState.SENDING and operation.sent:
        wait_for(tx, operation, canary)
        return CutEnd.CANARY_SENT
    if operation.left_out + cut.left_out and room_for(operation):
        return _pass_over(tx, operation, left_out, looks_again_after)
    completed = _complete(tx, operation_id)
    return CutEnd.COMPLETED if completed else CutEnd.STOPPED


def _hold_standing(tx: Transaction, operation: RetryOperation, left_out: LeftOut | None) -> None:
    """Let what is due wait for what holds all of it, for a moment: it would be cut in a loop.

    Others may be due before the moment is over; they do not wait for it.
    """
    found = [] if left_out is None else find_reasons(tx, operation, left_out)
    told = "; ".join(why for _, why in found)
    # What held them may have let go of them since the look: they wait for the next one all the same.
    reason = told or (None if left_out is None else left_out.reason)
    at = min(find_next_due(tx) or tx.now + _HELD_LOOK, tx.now + _HELD_LOOK)
    at = max(at, tx.now + _SHORTEST_LOOK)
    retry_operations.pass_over(tx, operation.operation_id, reason, at)


def _pass_over(
    tx: Transaction,
    operation: RetryOperation,
    left_out: LeftOut | None,
    looks_again_after: timedelta,
) -> CutEnd:
    """Let it wait for what holds the rest, or begin anew if nothing does any more."""
    found = [] if left_out is None else find_reasons(tx, operation, left_out)
    if not found:
        retry_operations.look_again(tx, operation.operation_id)
        return CutEnd.BEGUN_ANEW
    reason = "; ".join(why for _, why in found)
    looks_again = any(part.looks_again for part, _ in found)
    at = tx.now + looks_again_after if looks_again else None
    retry_operations.pass_over(tx, operation.operation_id, reason, at)
    return CutEnd.PASSED_OVER


def _complete(tx: Transaction, operation_id: str) -> bool:
    """Complete an operation whose last cut was empty, and say what became of its messages.

    Returns false if it was paused or is to be cancelled.
    """
    if not retry_operations.complete(tx, operation_id):
        return False
    counts = (columns.originator, columns.forwarded, columns.skipped, columns.failed)
    row = tx.execute(select(*counts).where(columns.operation_id == operation_id)).one()
    completed = Entry(
        kind="operation_completed",
        text=(
            f"{row.originator}: done: {row.forwarded} forwarded, {row.skipped} skipped, "
            f"{row.failed} failed"
        ),
        operation_id=operation_id,
    )
    event_log.append(tx, [completed])
    return True


def end_cancelled(tx: Transaction, operation: RetryOperation) -> CancelledOperation:
    """End an operation whose cancel was asked for; no batch of it may be left."""
    operation_id, total = operation.operation_id, operation.total
    retry_operations.cancel(tx, operation_id)
    ended = Entry(
        kind="operation_cancelled",
        text=f"{operation.originator}: cancelled; {total - operation.sent} of {total} not sent",
        operation_id=operation_id,
    )
    event_log.append(tx, [ended])
    return CancelledOperation(operation_id=operation_id)


@writing
def look_again(tx: Transaction) -> int:
    """Let all operations look once more for messages that they left out; return how many do.

    To be called when something that held messages has let go of them. Raises DatabaseUnavailable.
    """
    again = retry_operations.look_again(tx)
    if again:
        tx.sql.announce_request(tx.conn)
    return again
