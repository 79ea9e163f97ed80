"""How operations, batches, claims and retries end; and canaries, which hold an operation up."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from enum import Enum
from itertools import groupby
from operator import attrgetter

from sqlalchemy import bindparam, select

from retrier.domain.decision import Decided, Manual
from retrier.domain.edits import EditState
from retrier.domain.failed_message import FailedMessageStatus, Move, RetryEnd
from retrier.domain.outcomes import RetryOutcome
from retrier.domain.retry_batch import Ejected, RetryBatch, room_for
from retrier.domain.retry_operation import (
    BEFORE_THE_VERDICT,
    LOOK_AGAIN,
    OPEN_STATES,
    CanaryState,
    RetryOperation,
    RetryOperationState,
    RetryType,
    RunningCanary,
    describe_canary,
    may_go_on,
    verdict_timeout,
)
from retrier.domain.text import count_messages
from retrier.domain.values import dataclass
from retrier.policy.policy_set import WAITING, Judge
from retrier.store import batches, claims, edits, event_log, message_texts, messages, operations
from retrier.store.attempts import Columns, judged_columns
from retrier.store.breakers import count_reverted
from retrier.store.cuts import Cut
from retrier.store.engine.database import writing
from retrier.store.engine.transaction import StoredRow, Transaction
from retrier.store.event_log import Entry
from retrier.store.judging import JudgedMessage, follow_up, judge_reverts
from retrier.store.lease import fenced
from retrier.store.operation_lists import columns, find_evidence
from retrier.store.schedule import LeftOut, find_next_due, find_reasons
from retrier.store.schema import failed_message_retries, failed_messages, retry_operations

_HELD_LOOK = timedelta(seconds=1)
"""How long what is due waits before a further look, if all of it is held."""
_SHORTEST_LOOK = timedelta(seconds=0.2)
"""How long it waits at least, if something else becomes due before."""


def end_claims(tx: Transaction, numbers: Sequence[int], how: RetryEnd) -> Sequence[StoredRow]:
    """Delete the claims of these messages, keep the stamped ones as ended; return their rows."""
    if not numbers:
        return []
    ended = claims.end(tx, numbers)
    claims.keep_ended(tx, ended, how)
    return ended


def end_unrecorded_claims(
    tx: Transaction, batch_id: str, numbers: Sequence[int], how: RetryEnd
) -> Sequence[StoredRow]:
    """Do so for the unrecorded claims that this batch has of these messages."""
    if not numbers:
        return []
    ended = claims.end_unrecorded(tx, batch_id, numbers)
    claims.keep_ended(tx, ended, how)
    return ended


def end_batch(tx: Transaction, batch_id: str) -> None:
    """Delete a batch that is done or has no claims left, and the pointer if that names it."""
    batches.clear_pointer(tx, batch_id)
    batches.remove(tx, batch_id)


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
    edited = [claim for claim in ended if claim.edit_id is not None]
    patched = judge.in_force().configured and operations.is_patched(tx, batch.operation_id)
    if edited or patched:
        # A person wanted it to be another: nothing sends it by itself as it was. An earlier try may
        # have arrived, and then both would be out.
        judge = WAITING
    for claim in edited:
        edits.end(tx, [claim], EditState.RETURNED, items[claim.number].reason)
    policies = judge.in_force()
    judged = judge_reverts(tx, batch, {each.number: each for each in back}, policies, judge.dice)
    messages.revert(tx, _columns_of(tx, judged))
    decided = follow_up(tx, judged, policies, batch)
    operations.count_failed(tx, batch.operation_id, len(back), back[-1].reason)
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
        return CutEnd.NOTHING_DUE if operations.rest(tx, operation_id) else CutEnd.STOPPED
    if canary is not None and canary.state is CanaryState.SENDING and operation.sent:
        wait_for_canary(tx, operation, canary)
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
    operations.pass_over(tx, operation.operation_id, reason, at)


def _pass_over(
    tx: Transaction,
    operation: RetryOperation,
    left_out: LeftOut | None,
    looks_again_after: timedelta,
) -> CutEnd:
    """Let it wait for what holds the rest, or begin anew if nothing does any more."""
    found = [] if left_out is None else find_reasons(tx, operation, left_out)
    if not found:
        operations.look_again(tx, operation.operation_id)
        return CutEnd.BEGUN_ANEW
    reason = "; ".join(why for _, why in found)
    looks_again = any(part.looks_again for part, _ in found)
    at = tx.now + looks_again_after if looks_again else None
    operations.pass_over(tx, operation.operation_id, reason, at)
    return CutEnd.PASSED_OVER


def _complete(tx: Transaction, operation_id: str) -> bool:
    """Complete an operation whose last cut was empty, and say what became of its messages.

    Returns false if it was paused or is to be cancelled.
    """
    if not operations.complete(tx, operation_id):
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
    operations.cancel(tx, operation_id)
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
    again = operations.look_again(tx)
    if again:
        tx.sql.announce_request(tx.conn)
    return again


def leave_batches(
    tx: Transaction, keys: Mapping[int, str], how: RetryEnd, *, who: str, became: str
) -> Iterable[Entry]:
    """End the claims of these messages; yield events for those that were not sent.

    `keys` are unique ids by number. The operations count what was not sent as skipped, and say that
    it `became` something before it was sent.
    """
    ended = end_claims(tx, sorted(keys), how)
    reason = f"it was {became} before it was sent"
    edits.end(tx, ended, EditState.DROPPED, reason)
    sent = [each.operation_id for each in ended if each.forwarded_at is not None]
    operations.count_outcomes(tx, Counter((key, RetryOutcome(how)) for key in sent))
    unsent = sorted(
        (claim for claim in ended if claim.forwarded_at is None), key=attrgetter("operation_id")
    )
    for operation_id, rows in groupby(unsent, attrgetter("operation_id")):
        numbers = [row.number for row in rows]
        operations.count_skipped(tx, operation_id, len(numbers))
        operations.note_dropped(tx, operation_id, numbers, reason)
        for key in map(keys.__getitem__, numbers):
            yield Entry(
                kind="retry_skipped",
                text=f"{key}: not retried: {reason}",
                who=who,
                unique_message_id=key,
                operation_id=operation_id,
            )


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
    messages.lock(tx, numbers)
    mine = {claim.number: claim for claim in claims.lock(tx, numbers)}
    # Only the processor takes and stamps claims, but a person or an outcome may have ended some.
    freed = [number for number in numbers if _is_mine(mine.get(number), batch)]
    _free(tx, freed)
    claims.drop(tx, freed)
    edits.end(tx, [mine[number] for number in freed], EditState.DROPPED, CANCELLED)
    operations.count_skipped(tx, batch.operation_id, len(freed))
    operations.note_dropped(tx, batch.operation_id, freed, CANCELLED)
    released = Entry(
        kind="batch_released",
        text=f"{count_messages(len(freed))} left the batch: {CANCELLED}",
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


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryJudged:
    """What became of a canary: `came_back` of `sent` messages did, and whether that was too many."""

    operation_id: str
    sent: int
    came_back: int
    passed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryHeld:
    """A canary cannot be judged yet; its operation says why."""

    operation_id: str


def wait_for_canary(tx: Transaction, operation: RetryOperation, canary: RunningCanary) -> None:
    """Begin the wait for what comes back: the first messages are sent, and no batch is alive."""
    operation_id = operation.operation_id
    operations.let_canary_wait(tx, operation_id, tx.now + canary.wait)
    operations.put_off(tx, operation_id, tx.now + canary.wait)
    seconds = canary.wait.total_seconds()
    sent = Entry(
        kind="canary_sent",
        text=f"the first {count_messages(operation.sent)} went out: waiting {seconds:g} s for what comes back",
        operation_id=operation_id,
    )
    event_log.append(tx, [sent])


def judge_canary(
    tx: Transaction, operation: RetryOperation, canary: RunningCanary
) -> CanaryJudged | CanaryHeld:
    """Let the operation go on, or pause it, by how many of the first messages came back.

    Silence is no success while something may be unread: then it waits, and says why; in the end it
    is paused, for a person to decide.
    """
    operation_id, evidence = operation.operation_id, find_evidence(tx, operation)
    back, unread = evidence.came_back, evidence.unread
    few = may_go_on(canary, back)
    if few and unread is not None and tx.now < evidence.waited_until + verdict_timeout(canary):
        operations.put_off(tx, operation_id, tx.now + LOOK_AGAIN)
        operations.say_why(tx, operation_id, f"{BEFORE_THE_VERDICT}{unread}")
        return CanaryHeld(operation_id=operation_id)
    passed = few and unread is None
    state = CanaryState.PASSED if passed else CanaryState.FAILED
    operations.move_canary(tx, operation_id, CanaryState.WAITING, state, came_back=back)
    told = describe_canary(operation.sent, back)
    if few and not passed:
        told = f"{told} so far, and that is not all: {unread}"
    if passed:
        operations.put_off(tx, operation_id, None)
        operations.say_why(tx, operation_id, None)
    else:
        paused = {"state": RetryOperationState.PAUSED, "next_cut": None}
        reason = f"{told}: resume or cancel it"
        operations.change(tx, operation_id, OPEN_STATES, {**paused, "reason": reason})
    judged = Entry(kind=f"canary_{state}", text=told, operation_id=operation_id)
    event_log.append(tx, [judged])
    return CanaryJudged(
        operation_id=operation_id, sent=operation.sent, came_back=back, passed=passed
    )
