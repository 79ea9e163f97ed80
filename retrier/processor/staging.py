"""Staging: puts the copies of a batch into the staging queue under a new staging id."""

from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from datetime import timedelta
from uuid import uuid4

from retrier.domain.retry_batch import (
    ClaimedMessage,
    Ejected,
    RetryBatch,
    RetryBatchStatus,
    StagedCopies,
)
from retrier.domain.values import dataclass
from retrier.domain.wire import (
    ChannelClosed,
    Confirmed,
    Outcome,
    Outgoing,
    Refused,
    Returned,
    Unknown,
)
from retrier.errors import BrokerUnavailable, QueueSilent
from retrier.events.processor import (
    BatchStaged,
    CopiesPublished,
    CopiesSent,
    CopySentAlone,
    StagingBackedOff,
    StagingConnected,
    StagingIdsRecorded,
    StagingQueuePurged,
)
from retrier.processor.breakers import Breaking
from retrier.processor.stage_context import StageContext
from retrier.processor.staging_queue import make_copy, make_marker
from retrier.store.breakers import NOTHING_COUNTED, Counting
from retrier.store.forwarding import back_off_batch, begin_forwarding, load_claimed
from retrier.store.upkeep import record_staging_ids

_ID_KEPT_READY = 3600.0
"""Seconds for which a staging id that was recorded ahead may be used."""

_WAITS = (0.5, 1, 2, 5, 10)
"""Seconds a batch waits after the first broker failure in a row, the second, and so on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Copy:
    message: ClaimedMessage
    outgoing: Outgoing


@dataclass(slots=True)
class _Attempt:
    """One staging attempt while it runs."""

    staged: list[int] = field(default_factory=list)
    elsewhere: dict[str, list[int]] = field(default_factory=dict)
    ejected: list[Ejected] = field(default_factory=list)
    counting: Counting = NOTHING_COUNTED

    def stage(self, message: ClaimedMessage) -> None:
        self.staged.append(message.number)
        if message.elsewhere:
            self.elsewhere.setdefault(message.destination, []).append(message.number)

    def eject(self, message: ClaimedMessage, reason: str) -> None:
        number, unique_id = message.number, message.unique_message_id
        self.ejected.append(Ejected(number=number, unique_message_id=unique_id, reason=reason))


class Staging:
    """Stages one batch at a time; `staged_batch_id` is the one it moved into Forwarding last."""

    def __init__(self, context: StageContext) -> None:
        self._context = context
        self._breaking = Breaking(context)
        self._failures = 0
        self._next_id: tuple[str, float] | None = None
        """A recorded staging id that is unused, and when it was recorded (monotonic seconds)."""
        self.staged_batch_id: str | None = None
        """The batch this process staged last: it is forwarded in counting mode."""

    def run_once(self, batch: RetryBatch) -> RetryBatch | None:
        """Stage this batch; return it as it is in Forwarding, or None if none of its messages is left.

        When the broker is down, no message is ejected: the batch waits. Raises BrokerUnavailable,
        LeaseLost, DatabaseUnavailable, StagingQueueUnusable.
        """
        context = self._context
        try:
            moved = self._stage(batch)
        except BrokerUnavailable as error:
            if isinstance(error, QueueSilent):
                self._failures = 0  # the broker answers, and the queue is renewed next
            self._back_off(batch, str(error))
            raise
        self._failures = 0
        if batch.stage_attempts == 0:
            # Not progress: a batch staged again because no copy came back (decision 0022).
            context.progress.made()
        return moved

    def forget(self) -> None:
        """Forget which batch was staged here: after an error it is forwarded non-counting."""
        self.staged_batch_id = None
        self._next_id = None

    def _stage(self, batch: RetryBatch) -> RetryBatch | None:
        context = self._context
        began = context.clock.monotonic()
        publisher = context.broker.publisher
        context.emit(StagingConnected(batch_id=batch.batch_id))
        context.lease.ensure_fresh()
        # No batch is in Forwarding, so the queue holds only leftovers of attempts that never
        # committed. Purged, or they would pile up until a length limit refuses new copies.
        context.broker.queues.purge(context.retries.staging_queue)
        context.emit(StagingQueuePurged(batch_id=batch.batch_id))
        attempt = _Attempt()
        copies: list[_Copy] = []
        used = context.breakers.is_used
        claimed = self._breaking.load(batch) if used else load_claimed(context.db, batch.batch_id)
        context.lease.ensure_fresh()
        staging_id = self._take_id()
        # Not in windows as in Forwarding: copies whose staging id is not committed are never
        # forwarded, so a crash here sends nothing twice.
        outgoing = self._make_copies(claimed, staging_id, attempt, copies)
        outcomes = publisher.publish(outgoing, context.lease.check)
        self._settle(copies, outcomes, attempt)
        context.emit(
            CopiesPublished(batch_id=batch.batch_id, staging_id=staging_id, size=len(copies))
        )
        attempt.counting = self._breaking.count(claimed) if used else NOTHING_COUNTED
        return self._commit(batch, staging_id, attempt, began)

    def _take_id(self) -> str:
        """Return a staging id that is recorded and under which nothing was published yet.

        Usually the commit that staged the previous batch recorded it (decision 0030). Ids are
        deleted 90 days after they were recorded, so an old one is not used for new copies.
        """
        context, prepared = self._context, self._next_id
        self._next_id = None
        if prepared is not None and context.clock.monotonic() - prepared[1] < _ID_KEPT_READY:
            return prepared[0]
        staging_id = str(uuid4())
        ids = (staging_id, context.retries.session_id)
        record_staging_ids(context.db, context.lease.fence, ids)
        context.emit(StagingIdsRecorded(staging_ids=ids))
        return staging_id

    def _commit(
        self, batch: RetryBatch, staging_id: str, attempt: _Attempt, began: float
    ) -> RetryBatch | None:
        context = self._context
        next_id, now = str(uuid4()), context.clock.monotonic()
        copies = StagedCopies(
            staging_id=staging_id,
            numbers=tuple(attempt.staged),
            elsewhere=attempt.elsewhere,
            ejected=tuple(attempt.ejected),
            # The id of probes is recorded again: it must outlive every probe that lies in a queue.
            next_ids=(next_id, context.retries.session_id),
        )
        begun = begin_forwarding(
            context.db, context.lease.fence, batch, copies, context.judge, attempt.counting
        )
        self._next_id = (next_id, now)
        self.staged_batch_id = batch.batch_id
        context.emit(
            BatchStaged(
                batch_id=batch.batch_id,
                operation_id=batch.operation_id,
                staging_id=staging_id,
                size=begun.count,
                seconds=context.seconds_since(began),
                ejected=copies.ejected,
                decided=begun.decided,
            )
        )
        if not begun.count:
            return None
        return replace(
            batch,
            status=RetryBatchStatus.FORWARDING,
            staging_id=staging_id,
            message_count=begun.count,
            not_before=None,
            reason=None,
        )

    def _make_copies(
        self,
        claimed: Sequence[ClaimedMessage],
        staging_id: str,
        attempt: _Attempt,
        copies: list[_Copy],
    ) -> Iterator[Outgoing]:
        """Yield the copies and note them; a message that gets no copy is ejected instead."""
        for message in claimed:
            copy = make_copy(self._context, message, staging_id)
            if isinstance(copy, Ejected):
                attempt.ejected.append(copy)
                continue
            copies.append(_Copy(message=message, outgoing=copy))
            yield copy
            if len(copies) % self._context.retries.window == 0:
                self._context.emit(CopiesSent(staging_id=staging_id, count=len(copies)))

    def _settle(
        self, window: Sequence[_Copy], outcomes: Sequence[Outcome], attempt: _Attempt
    ) -> None:
        """Note the outcomes; what was refused or left open by a closed channel goes alone."""
        doubtful = [
            copy
            for copy, outcome in zip(window, outcomes, strict=True)
            if not self._is_staged(copy, outcome, attempt)
        ]
        for copy in doubtful:
            reason = self._send_alone(copy, attempt)
            if reason is not None:
                self._prove_that_others_pass(reason)
                attempt.eject(copy.message, reason)

    def _is_staged(self, copy: _Copy, outcome: Outcome, attempt: _Attempt) -> bool:
        match outcome:
            case Confirmed():
                attempt.stage(copy.message)
                return True
            case Refused() | ChannelClosed():
                return False
            case Returned(reason):
                raise BrokerUnavailable(f"the staging queue is gone: {reason}")
            case Unknown(reason):
                raise BrokerUnavailable(reason)

    def _send_alone(self, copy: _Copy, attempt: _Attempt) -> str | None:
        """Send one copy alone; return the broker's reason if it refuses this one, else None."""
        context = self._context
        context.lease.ensure_fresh()
        (outcome,) = context.broker.publisher.publish([copy.outgoing], context.lease.check)
        context.emit(CopySentAlone())
        if self._is_staged(copy, outcome, attempt):
            return None
        return outcome.reason if isinstance(outcome, Refused | ChannelClosed) else None

    def _prove_that_others_pass(self, reason: str) -> None:
        """Send a marker that no run waits for: if it is refused too, the queue is at fault.

        A full queue, or one without permission to publish, must not eject messages (decision
        0007). Raises BrokerUnavailable.
        """
        context = self._context
        _, probe = make_marker(context, context.retries.session_id)
        context.lease.ensure_fresh()
        (outcome,) = context.broker.publisher.publish([probe], context.lease.check)
        context.emit(CopySentAlone())
        if not isinstance(outcome, Confirmed):
            raise BrokerUnavailable(f"the staging queue takes no copies: {reason}")

    def _back_off(self, batch: RetryBatch, reason: str) -> None:
        context = self._context
        wait = _WAITS[min(self._failures, len(_WAITS) - 1)]
        self._failures += 1
        back_off_batch(
            context.db,
            context.lease.fence,
            batch.batch_id,
            wait=timedelta(seconds=wait),
            reason=reason,
        )
        context.emit(StagingBackedOff(batch_id=batch.batch_id, reason=reason))
