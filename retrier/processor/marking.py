"""Marking: adopts a batch that was left in Marking, or cuts the next one off an operation.

And before any stage: batches of operations that a person has cancelled are released.
"""

from dataclasses import replace
from datetime import timedelta
from typing import assert_never

from retrier.domain.retry_batch import RetryBatch
from retrier.domain.retry_operation import Priority
from retrier.domain.streams import SHORTEST_LOOK_WAIT, HeldLooks, wait_for_look
from retrier.events.processor import (
    BatchAdopted,
    BatchMarked,
    BatchOpened,
    BatchReleased,
    CanaryFailed,
    CanaryPassed,
    CanarySent,
    MessagesClaimed,
    OperationCancelled,
    OperationCompleted,
)
from retrier.processor.breakers import Breaking
from retrier.processor.stage_context import StageContext
from retrier.store.batches import NextBatch
from retrier.store.holds import hold_by_breakers
from retrier.store.marking import (
    MarkedBatch,
    OpenedBatch,
    adopt,
    claim_messages,
    cut_batch,
    move_to_staging,
)
from retrier.store.processor_work import Outlook, Turns, find_work, look_at_next
from retrier.store.retry_ends import (
    CanaryHeld,
    CanaryJudged,
    CancelledOperation,
    CutEnd,
    release_batch,
)
from retrier.store.schedule import WhatHolds, hold_nothing

_MOST_MARKS = 1000
"""Operations of which it is remembered when they were looked at in vain; else they look again."""


class Cancelling:
    """Finds what is to be done next, and ends batches of cancelled operations on the way."""

    def __init__(self, context: StageContext) -> None:
        self._context = context

    def find_work(self) -> RetryBatch | Outlook:
        """Return the batch that is to be moved next; without one, what the next cut would meet.

        Messages of a cancelled operation that are not stamped leave their batch here, before a
        stage works: a batch in Staging may wait for a broker that is away. What is stamped goes its
        way to the end. Raises LeaseLost, DatabaseUnavailable.
        """
        while isinstance(found := find_work(self._context.db), NextBatch):
            self._context.breakers.may_hold = found.may_hold
            if not (found.cancel_asked and self._release(found.batch)):
                return found.batch
        self._context.breakers.may_hold = found.may_hold
        return found

    def _release(self, batch: RetryBatch) -> bool:
        context = self._context
        ended = release_batch(context.db, context.lease.fence, batch)
        context.emit(
            BatchReleased(batch_id=batch.batch_id, operation_id=batch.operation_id, ended=ended)
        )
        context.progress.made()
        return ended


class Adoption:
    """Moves an orphaned batch from Marking to Staging, with the claims it has.

    A batch found in Marking at the start of a turn is an orphan: another session left it, or this
    one after an error. Orphans go before new cuts, because their claims block other retries.
    """

    def __init__(self, context: StageContext) -> None:
        self._context = context

    def run_once(self, batch: RetryBatch) -> None:
        """Adopt this orphan; what is next has to be asked. Raises LeaseLost, DatabaseUnavailable."""
        context = self._context
        size = adopt(context.db, context.lease.fence, batch)
        if size is not None:
            context.emit(
                BatchAdopted(
                    batch_id=batch.batch_id,
                    operation_id=batch.operation_id,
                    session_id=batch.session_id,
                    size=size,
                )
            )
        context.progress.made()


class Marking:
    """Cuts at most 1000 messages off the operation whose turn it is.

    What is due by policy goes before bulk operations, but after each of its batches a bulk has its
    turn, so neither starves. Whose turn it is stays in memory: only the holder of the lease cuts,
    and a new holder may begin with either.
    """

    def __init__(self, context: StageContext) -> None:
        self._context = context
        self._held = HeldLooks(after=SHORTEST_LOOK_WAIT)
        self._breaking = Breaking(context)
        self._bulk_first = False

    def run_once(self, outlook: Outlook) -> tuple[bool, RetryBatch | None]:
        """Cut one batch; return whether there was an operation to cut, to end or to judge.

        And the batch if it is known to be the next one: that of a single message. While a larger
        one is cut somebody may well cancel it, and it need not be staged then. Raises LeaseLost,
        DatabaseUnavailable.
        """
        context = self._context
        began = context.clock.monotonic()
        turned = context.breakers.is_used and self._breaking.decide()
        if not (outlook.may_cut or turned):
            return False, None
        turns = Turns(
            bulk_first=self._bulk_first,
            per_second=context.per_second(),
            rules=context.breakers.rules(),
        )
        may_hold = context.breakers.may_hold
        sight = None
        if not outlook.is_single:
            sight = look_at_next(context.db, turns, self._held, may_hold=may_hold)
        opened = cut_batch(
            context.db,
            context.lease.fence,
            context.retries.session_id,
            self._what_holds(),
            turns,
            self._held,
            sight,
        )
        if opened is None:
            return turned, None
        marked = None
        match opened:
            case OpenedBatch():
                self._emit_marked(self._claim(opened), began)
            case MarkedBatch():
                self._emit_marked(opened, began)
                # Another operation may have come since the look.
                is_known = outlook.is_single and opened.claimed == 1
                marked = opened.batch if is_known else None
            case CanaryJudged():
                context.emit(_judged(opened))
            case CanaryHeld():
                return turned, None
            case CancelledOperation(operation_id=operation_id):
                context.emit(OperationCancelled(operation_id=operation_id))
            case _ as never:
                assert_never(never)
        context.progress.made()
        return True, marked

    def _what_holds(self) -> WhatHolds:
        return hold_by_breakers if self._context.breakers.may_hold else hold_nothing

    def _claim(self, opened: OpenedBatch) -> MarkedBatch:
        """Claim and move in two transactions: a crash between them leaves an orphan to adopt."""
        context = self._context
        batch_id, operation_id = opened.batch_id, opened.operation.operation_id
        context.emit(BatchOpened(batch_id=batch_id, operation_id=operation_id))
        marked = claim_messages(
            context.db, context.lease.fence, opened, self._what_holds(), self._held
        )
        size = marked.claimed
        context.emit(MessagesClaimed(batch_id=batch_id, operation_id=operation_id, size=size))
        context.progress.made()
        if marked.end is None:
            move_to_staging(context.db, context.lease.fence, opened.batch_id)
        return marked

    def _emit_marked(self, marked: MarkedBatch, began: float) -> None:
        context, operation_id = self._context, marked.operation_id
        self._note_look(marked, began)
        match marked.end:
            case CutEnd.COMPLETED:
                context.emit(OperationCompleted(operation_id=operation_id))
            case CutEnd.CANARY_SENT:
                context.emit(CanarySent(operation_id=operation_id))
            case (
                CutEnd.PASSED_OVER
                | CutEnd.UNCHANGED
                | CutEnd.BEGUN_ANEW
                | CutEnd.STOPPED
                | CutEnd.NOTHING_DUE
            ):
                return
            case None:
                self._emit_batch(marked, began)
            case _ as never:
                assert_never(never)

    def _note_look(self, marked: MarkedBatch, began: float) -> None:
        """Note when what streams hold is looked at again: soon after a message of theirs went."""
        if marked.claimed:
            self._held = replace(self._held, after=SHORTEST_LOOK_WAIT)
        if marked.end not in (CutEnd.PASSED_OVER, CutEnd.UNCHANGED):
            return
        took = timedelta(seconds=self._context.seconds_since(began))
        marks = {**self._held.marks} if len(self._held.marks) < _MOST_MARKS else {}
        if marked.mark is not None:
            marks[marked.operation_id] = marked.mark
        self._held = HeldLooks(marks=marks, after=wait_for_look(self._held.after, took))

    def _emit_batch(self, marked: MarkedBatch, began: float) -> None:
        if marked.claimed:
            self._give_turn(marked)
            event = BatchMarked(
                batch_id=marked.batch_id,
                operation_id=marked.operation_id,
                size=marked.claimed,
                seconds=self._context.seconds_since(began),
            )
            self._context.emit(event)

    def _give_turn(self, marked: MarkedBatch) -> None:
        """Let a bulk be next after a batch by policy, and what is due after one of a bulk.

        A small request goes before both, and changes nothing about that.
        """
        if marked.priority is not Priority.SMALL:
            self._bulk_first = marked.priority is Priority.POLICY


def _judged(judged: CanaryJudged) -> CanaryPassed | CanaryFailed:
    event = CanaryPassed if judged.passed else CanaryFailed
    return event(operation_id=judged.operation_id, sent=judged.sent, came_back=judged.came_back)
