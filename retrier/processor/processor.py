"""The processor: `run_once` does one piece of work of the most advanced stage; `run` loops."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from threading import Event
from typing import assert_never

from retrier.domain.retry_batch import RetryBatch, RetryBatchStatus
from retrier.errors import (
    BrokerUnavailable,
    DatabaseUnavailable,
    LeaseLost,
    QueueSilent,
    RetrierError,
    StagingQueueUnusable,
)
from retrier.events.processor import (
    GaveWay,
    LeaseAcquired,
    LeaseAwaited,
    LeaseEnded,
    LeaseReleased,
    ProcessorIdle,
    ProcessorRecovered,
    TurnFailed,
)
from retrier.processor.breakers import Breaking
from retrier.processor.broker import kind_of
from retrier.processor.forwarding import Forwarding
from retrier.processor.marking import Adoption, Cancelling, Marking
from retrier.processor.stage_context import StageContext
from retrier.processor.staging import Staging
from retrier.processor.staging_queue import StagingQueue
from retrier.store.batches import is_any_staging
from retrier.store.processor_work import Outlook, time_until_due

_STANDBY_LOOK = 1.0
_BREAKERS_LOOK = 1.0
"""Seconds between two decisions about breakers while the windows of a batch are sent."""
_HELD_UP_LOOK = timedelta(seconds=1)
_BACK_OFF = (0.5, 1.0, 2.0, 5.0, 10.0)
_UNUSABLE_WAIT = 30.0
_HEARTBEAT = 2.0


class Processor:
    """Owns the lease, the broker connections and the order of the stages."""

    def __init__(self, context: StageContext, wake: Event) -> None:
        self._context = context
        self._wake = wake
        self._breaking = Breaking(context)
        self._staging = Staging(context)
        self._queue = StagingQueue(context)
        self._forwarding = Forwarding(context, self._queue, lambda: self._staging.staged_batch_id)
        self._cancelling = Cancelling(context)
        self._adoption = Adoption(context)
        self._marking = Marking(context)
        self._next: RetryBatch | None = None
        """The batch that the last turn left to be moved next; else the database is asked.

        Safe, because only the holder of the lease moves or ends a batch, and each commit checks
        the lease.
        """
        self._failures = 0
        self._lacks_broker = False
        self._troubled_since = 0.0
        self._epoch: int | None = None
        self._reason: str | None = None
        self._logged: set[type[Exception]] = set()  # kinds of error, each once in a trouble

    @property
    def reason(self) -> str | None:
        """Why the processor makes no progress, in a sentence; None when it does."""
        return self._reason

    def run_once(self) -> bool:
        """Let the most advanced stage with work do one piece; return if there was any. Raises its errors."""
        # Taken away first: after an error it is not known what was committed.
        known, self._next = self._next, None
        found = known or self._cancelling.find_work()
        is_going = isinstance(found, RetryBatch) and found.status is RetryBatchStatus.FORWARDING
        if not is_going:
            self._forwarding.leave()
        if isinstance(found, Outlook):
            worked, self._next = self._marking.run_once(found)
            return worked
        if self._context.breakers.is_used:
            # What is in Forwarding is sent whatever is decided: now and then is enough for the next cut.
            self._breaking.decide(at_most_every=_BREAKERS_LOOK if is_going else 0)
        self._next = self._stage_of(found.status)(found)
        return True

    def _stage_of(self, status: RetryBatchStatus) -> Callable[[RetryBatch], RetryBatch | None]:
        match status:
            case RetryBatchStatus.FORWARDING:
                return self._forwarding.run_once
            case RetryBatchStatus.STAGING:
                return self._staging.run_once
            case RetryBatchStatus.MARKING:
                return self._adoption.run_once
            case _ as never:
                assert_never(never)

    def run(self) -> None:
        """Work until the stop event is set; then give back unacknowledged copies and the lease."""
        while not self._context.stop.is_set():
            if pause := self._turn():
                self._wait(pause)
        self._finish()

    def _turn(self) -> float:
        """Do one turn; return how long to wait before the next one, in seconds."""
        try:
            self._give_way()
            if not self._is_processor():
                self._context.progress.rest()
                return _STANDBY_LOOK
            self._context.progress.begin()
            self._queue.renew()
            worked = self.run_once()
            if worked or not self._is_held_up():
                self._recover()
            return 0 if worked else self._idle_wait()
        except LeaseLost as error:
            return self._step_down(error)
        except QueueSilent as error:
            return self._meet_silence(error)
        except Exception as error:  # noqa: BLE001 - the edge of the loop: the service must go on
            return self._back_off(error)

    def _idle_wait(self) -> float:
        """Return the seconds to sleep without work, at most until a batch or operation is due."""
        context = self._context
        context.emit(ProcessorIdle())
        due = time_until_due(context.db) if self._reason is None else _HELD_UP_LOOK
        # Called last: until then a query above that hangs is noted as a wait for the database.
        context.progress.idle(partial(is_any_staging, context.db))
        return min(it for it in (context.retries.idle_wait, due) if it is not None).total_seconds()

    def _wait(self, pause: float) -> None:
        if self._reason is not None:
            # Each request sets `wake`: waiting for it would retry a failed server per request.
            self._context.stop.wait(pause)
            return
        # Heartbeats in between: else the broker closes idle connections and a request must dial.
        while pause > 0 and not self._wake.wait(min(pause, _HEARTBEAT)):
            self._context.broker.keep_alive()
            pause -= _HEARTBEAT
        self._wake.clear()

    def _is_held_up(self) -> bool:
        """Whether a batch backs off in Staging: an idle turn then does not prove recovery."""
        return self._lacks_broker and is_any_staging(self._context.db)

    def _give_way(self) -> None:
        """Release the lease after a lease length without the broker: others may reach it (0012)."""
        context = self._context
        troubled = context.clock.monotonic() - self._troubled_since
        if context.lease.held and self._lacks_broker and troubled >= context.lease.seconds:
            context.lease.release()
            self._epoch = None
            context.emit(GaveWay(reason=self._reason))

    def _is_processor(self) -> bool:
        context = self._context
        if context.lease.held:
            return True
        # The tick's thread may have lost the lease. Close connections first, as `_step_down` does:
        # an open consumer keeps its copies from the next processor.
        self._drop()
        if self._epoch is not None:
            self._report_lost(f"epoch {self._epoch} is over")
        if self._lacks_broker:
            # After giving way: no lease before the broker is reached again (decision 0012).
            context.broker.reach()
            self._lacks_broker = False
            self._reason = "the broker is within reach again, and nothing was sent to it yet"
        other = context.lease.acquire()
        if other is None:
            self._epoch = context.lease.fence.epoch
            context.emit(LeaseAcquired(epoch=self._epoch))
            return True
        waiting = f"another processor holds the lease: {other.host}, process {other.pid}"
        waited_before, self._reason = self._reason, waiting
        if waited_before != waiting:
            context.emit(LeaseAwaited(host=other.host, pid=other.pid))
        self._logged.clear()  # the database answered: a later error of it is logged again
        return False

    def _step_down(self, error: LeaseLost) -> float:
        self._report_lost(str(error))
        # Close connections first: nothing may be acked or published under an ended epoch.
        self._drop()
        self._context.lease.lose()
        return _STANDBY_LOOK

    def _report_lost(self, reason: str) -> None:
        self._epoch = None
        self._context.emit(LeaseEnded(reason=reason))

    def _back_off(self, error: Exception) -> float:
        """Return a wait that grows with each failure; log each kind of error once per trouble."""
        if not isinstance(error, DatabaseUnavailable):
            self._drop()
        wait = _BACK_OFF[min(self._failures, len(_BACK_OFF) - 1)]
        self._failures += 1
        self._note_broker(lacking=isinstance(error, BrokerUnavailable))
        # Compared with all errors of the trouble, not only the last: a broker that restarts resets,
        # refuses and closes in turns, which is one change of state. `reason` has the latest.
        kind = kind_of(error)
        if kind not in self._logged:
            self._context.emit(TurnFailed(error=error))
        self._logged.add(kind)
        self._reason = str(error)
        return _UNUSABLE_WAIT if isinstance(error, StagingQueueUnusable) else wait

    def _meet_silence(self, error: QueueSilent) -> float:
        """Have the next turn renew the staging queue; back off if that was done too often."""
        try:
            self._drop()
            self._queue.note(error)
        except StagingQueueUnusable as unusable:
            return self._back_off(unusable)
        self._failures += 1
        # Restarts the clock of `_give_way`: another process would meet the same queue (0018).
        self._note_broker(lacking=False)
        self._note_broker(lacking=True)
        self._reason = f"{error}; it is deleted and declared anew"
        return 0

    def _note_broker(self, *, lacking: bool) -> None:
        if lacking and not self._lacks_broker:
            self._troubled_since = self._context.clock.monotonic()
        self._lacks_broker = lacking

    def _recover(self) -> None:
        if self._failures:
            self._context.emit(ProcessorRecovered())
        self._failures = 0
        self._lacks_broker = False
        self._reason = None
        self._logged.clear()

    def _drop(self) -> None:
        self._next = None
        self._context.broker.drop()
        self._queue.forget()
        self._forwarding.forget()
        self._staging.forget()

    def _finish(self) -> None:
        for last in (self._forwarding.hand_over, self._drop, self._release):
            try:
                last()
            except RetrierError as error:
                self._context.emit(TurnFailed(error=error))

    def _release(self) -> None:
        self._context.lease.release()
        self._context.emit(LeaseReleased())
