"""How the forwarding of a batch begins and ends: done, or with its rest in a new batch."""

from collections.abc import Callable, Sequence
from datetime import timedelta

from retrier.domain.decision import Decided
from retrier.domain.retry_batch import RetryBatch, WindowResult
from retrier.domain.wire import Confirmed, Refused
from retrier.errors import BrokerUnavailable
from retrier.events.processor import (
    BatchForwarded,
    CompletionTried,
    DoubtMet,
    EndMarkerSent,
    ForwardingBegun,
    RestBackedOff,
    RestMoved,
    WindowRecorded,
    WindowStamped,
)
from retrier.processor.forwarding_run import ForwardingRun
from retrier.processor.stage_context import StageContext
from retrier.processor.staging_queue import StagingQueue, make_marker
from retrier.store.forwarding import MovedRest, back_off_batch, complete_batch, move_rest

_LOSSES_BEFORE_BACKING_OFF = 3
_LOSS_WAIT = timedelta(seconds=30)


def begin_run(context: StageContext, batch: RetryBatch, *, counting: bool) -> ForwardingRun:
    """Begin to forward a batch; without counting, an end marker is published behind its copies.

    Raises BrokerUnavailable, StagingQueueUnusable, LeaseLost, DatabaseUnavailable.
    """
    # Opened before the marker: a consumer that fails to open would leave one marker per try.
    context.broker.consumer(context.retries.prefetch)
    ordered = context.broker.transport.capabilities.ordered
    marker = _publish_marker(context, batch) if ordered and not counting else None
    context.emit(
        ForwardingBegun(
            batch_id=batch.batch_id,
            operation_id=batch.operation_id,
            staging_id=batch.staging_id,
            counting=counting,
        )
    )
    now = context.clock.monotonic()
    return ForwardingRun(batch=batch, counting=counting, marker=marker, began=now, quiet_since=now)


def _publish_marker(context: StageContext, batch: RetryBatch) -> str:
    nonce, marker = make_marker(context, batch.staging_id or "")
    context.lease.ensure_fresh()
    (outcome,) = context.broker.publisher.publish([marker], context.lease.check)
    # A marker that a full queue refuses is no error: it never arrives, and the run ends by
    # `marker_timeout`. Else the copies that fill the queue would wait for room for the marker.
    if not isinstance(outcome, Confirmed | Refused):
        raise BrokerUnavailable(f"the end marker was not taken: {outcome.reason}")
    context.emit(EndMarkerSent(batch_id=batch.batch_id))
    return nonce


def tell_doubt(context: StageContext, run: ForwardingRun) -> None:
    """Report that messages go again because a crash or a lost connection left them in doubt."""
    if run.doubtful:
        batch, count = run.batch, len(run.doubtful)
        context.emit(
            DoubtMet(batch_id=batch.batch_id, operation_id=batch.operation_id, count=count)
        )


def tell_window(
    context: StageContext,
    batch: RetryBatch,
    finished: WindowResult,
    decided: Sequence[Decided],
    *,
    stamped: bool,
) -> None:
    """Report that outcomes are recorded, and with `stamped` that a window was stamped with them."""
    event = WindowStamped if stamped else WindowRecorded
    batch_id, operation_id = batch.batch_id, batch.operation_id
    context.emit(
        event(batch_id=batch_id, operation_id=operation_id, result=finished, decided=decided)
    )


class RunEnd:
    """Deletes a batch when all of it is recorded, else moves the rest to a new batch."""

    def __init__(
        self, context: StageContext, queue: StagingQueue, leave: Callable[[], None]
    ) -> None:
        """`leave` is called when the batch is no longer in Forwarding."""
        self._context = context
        self._queue = queue
        self._leave = leave

    def close_or_wait(self, run: ForwardingRun) -> None:
        """Close a batch that has no copy in hand, unless more copies of it may still come.

        Raises LeaseLost, DatabaseUnavailable, BrokerUnavailable.
        """
        if run.may_be_done or self._is_quiet(run):
            self._close(run)
        elif self._quiet(run) >= self._context.retries.drain_timeout:
            # Noted before `marker_timeout`: a queue deleted again and again never gets that far,
            # and readiness would name the database as the cause (decision 0022).
            self._context.progress.lost()

    def _is_quiet(self, run: ForwardingRun) -> bool:
        retries = self._context.retries
        silence = retries.drain_timeout if run.marker is None else retries.marker_timeout
        return self._quiet(run) >= silence

    def _quiet(self, run: ForwardingRun) -> timedelta:
        return timedelta(seconds=self._context.clock.monotonic() - run.quiet_since)

    def _close(self, run: ForwardingRun) -> None:
        context = self._context
        over = run.marker_seen or self._is_quiet(run)
        if over and (run.misses_marker or run.got_nothing):
            # A frozen or cut-off predecessor may still consume and hold the copies (0007, 0012).
            self._queue.delete()
        unrecorded = complete_batch(context.db, context.lease.fence, run.batch)
        context.emit(CompletionTried(batch_id=run.batch.batch_id, unrecorded=unrecorded))
        if unrecorded == 0:
            context.progress.made()
            self._leave()
            context.emit(
                BatchForwarded(
                    batch_id=run.batch.batch_id,
                    operation_id=run.batch.operation_id,
                    seconds=context.seconds_since(run.began),
                )
            )
        elif over:
            self._move_rest(run)

    def _move_rest(self, run: ForwardingRun) -> None:
        context = self._context
        rest = move_rest(
            context.db,
            context.lease.fence,
            run.batch,
            session_id=context.retries.session_id,
            made_progress=run.made_progress,
        )
        context.emit(
            RestMoved(
                batch_id=run.batch.batch_id,
                operation_id=run.batch.operation_id,
                new_batch_id=None if rest is None else rest.batch_id,
                size=0 if rest is None else rest.size,
                message_count=run.batch.message_count or 0,
            )
        )
        self._leave()
        if rest is None or run.made_progress:
            context.progress.made()
        else:
            context.progress.lost()
        if rest is not None and rest.stage_attempts >= _LOSSES_BEFORE_BACKING_OFF:
            self._back_off(run.batch, rest)

    def _back_off(self, batch: RetryBatch, rest: MovedRest) -> None:
        # If somebody else consumes the copies, the deletion ends that consumer, too.
        self._queue.delete()
        context, reason = self._context, _describe_losses(batch)
        back_off_batch(
            context.db, context.lease.fence, rest.batch_id, wait=_LOSS_WAIT, reason=reason
        )
        context.emit(
            RestBackedOff(
                batch_id=rest.batch_id,
                operation_id=batch.operation_id,
                reason=reason,
                repeated=rest.stage_attempts > _LOSSES_BEFORE_BACKING_OFF,
            )
        )


def _describe_losses(batch: RetryBatch) -> str:
    return (
        f"the staging queue loses messages: batch {batch.batch_id} was staged "
        f"{batch.stage_attempts + 1} times and none of its copies came back"
    )
