"""Forwarding: the copies of one batch go home, window by window, until nothing is unrecorded."""

from collections.abc import Callable
from datetime import timedelta
from uuid import uuid4

from retrier.domain.copies import Stamps, make_end_marker
from retrier.domain.retry_batch import RetryBatch
from retrier.domain.wire import Confirmed, Outgoing, Refused
from retrier.errors import BrokerUnavailable
from retrier.processor.crash_points import CrashPoint
from retrier.processor.forwarding_run import ForwardingRun
from retrier.processor.preparation import Preparation
from retrier.processor.reverts import Reverts
from retrier.processor.staging_queue import StagingQueue
from retrier.processor.surroundings import Surroundings
from retrier.processor.watcher import Stage
from retrier.processor.window import WindowSender, batch_reason
from retrier.store.verbs.forwarding import MovedRest, complete_batch, move_rest
from retrier.store.verbs.staging import back_off_batch
from retrier.store.verbs.windows import load_members

_LOSSES_BEFORE_BACKING_OFF = 3
_LOSS_WAIT = timedelta(seconds=30)
_NOT_GIVEN_BACK = (
    "did not come back from the staging queue: it was emptied or deleted, somebody else consumes "
    "it, or a policy limits it"
)
_RECEIVE_TIMEOUT = 0.2
"""Seconds one turn waits for copies; short, so that a stop is heard."""


class Forwarding:
    """Forwards the batch the pointer names.

    In counting mode, when this process staged the batch itself, the frozen count says when to
    look whether it is done. Otherwise an end marker does: the staging queue keeps order, so
    behind the marker nothing of the batch is left. Without order, silence must do.
    """

    def __init__(
        self, around: Surroundings, queue: StagingQueue, staged_here: Callable[[], str | None]
    ) -> None:
        self._around = around
        self._queue = queue
        self._staged_here = staged_here
        self._preparation = Preparation(around)
        self._reverts = Reverts(around.say, around.clock)
        self._sender = WindowSender(around, self._reverts, self._preparation.get_ready_meanwhile)
        self._run: ForwardingRun | None = None
        self._certain = False
        """Whether the last turn ended as it should: then what it knew still holds."""

    @property
    def going_on(self) -> RetryBatch | None:
        """The batch in Forwarding, if that is known: it is the last turn's, which went well.

        Nobody else ends it: whoever takes the lease over is met at the next commit.
        """
        return self._run.batch if self._certain and self._run is not None else None

    def run_once(self, batch: RetryBatch) -> None:
        """Forward one window of the batch that the pointer names, or close it."""
        run = self._resume(batch)
        self._certain = False
        if run.doubtful:
            self._sender.send_alone(run)
            run.quiet_since = self._around.clock.monotonic()
        else:
            self._forward(run)
        self._certain = True

    def leave(self) -> None:
        """Consume no more: nothing is in Forwarding, of which we may not have heard."""
        self._run = None
        self._around.broker.rest_consumer()
        self._reverts.tell_due()

    def hand_over(self) -> None:
        """Record what is confirmed, and ack it: after a stop it would be sent again.

        Raises LeaseLost, DatabaseUnavailable, BrokerUnavailable.
        """
        try:
            if self._run is not None:
                self._sender.record(self._run)
        finally:
            self._reverts.tell_all()

    def forget(self) -> None:
        """Forget the run with its connection: the batch goes on in non-counting mode.

        What is confirmed and could not be recorded yet is kept, and recorded first: it must not
        be sent again only because the database was away.
        """
        self._reverts.tell_due()
        run, self._certain = self._run, False
        if run is None:
            return
        run.connected = False
        run.droppable, run.unacked = [], []
        self._run = run if run.finished else None

    def _resume(self, batch: RetryBatch) -> ForwardingRun:
        run = self._run
        if run is not None and run.batch.batch_id == batch.batch_id:
            if run.connected:
                return run
            self._sender.record(run)
        self._run = self._start(batch)
        return self._run

    def _start(self, batch: RetryBatch) -> ForwardingRun:
        around = self._around
        counting = self._staged_here() == batch.batch_id
        # Opened first: a consumer that cannot be had must not leave markers behind at each try.
        around.broker.consumer(around.retries.prefetch)
        members = load_members(around.db, batch.batch_id)
        ordered = around.broker.transport.capabilities.ordered
        marker = self._publish_marker(batch) if ordered and not counting else None
        around.say(
            "batch.forwarding",
            batch_id=batch.batch_id,
            operation_id=batch.operation_id,
            staging_id=batch.staging_id,
            counting=counting,
        )
        now = around.clock.monotonic()
        return ForwardingRun(
            batch=batch,
            members=members,
            installation_id=around.retries.installation_id,
            counting=counting,
            marker=marker,
            began=now,
            quiet_since=now,
        )

    def _publish_marker(self, batch: RetryBatch) -> str:
        around = self._around
        transport = around.broker.transport
        nonce = str(uuid4())
        stamps = Stamps(
            staging_id=batch.staging_id or "",
            installation_id=around.retries.installation_id,
            own_user=transport.user,
        )
        raw = make_end_marker(transport.codec, stamps, nonce)
        marker = Outgoing(queue=around.retries.staging_queue, raw=raw, body=b"")
        around.lease.ensure_fresh()
        (outcome,) = around.broker.publisher.publish([marker], around.lease.check)
        # One that a full queue refuses never arrives, which ends the run as well: the copies
        # that fill the queue must not wait for it.
        if not isinstance(outcome, Confirmed | Refused):
            raise BrokerUnavailable(f"the end marker was not taken: {outcome.reason}")
        around.crash_point(CrashPoint.FORWARDING_MARKED)
        return nonce

    def _forward(self, run: ForwardingRun) -> None:
        expecting = not (run.inbox or run.ready or run.finished or run.marker_seen)
        self._preparation.get_ready(run, wait=_RECEIVE_TIMEOUT if expecting else 0)
        if run.ready:
            self._sender.send(run)
            run.quiet_since = self._around.clock.monotonic()
        elif run.may_be_done or (not run.finished and self._is_quiet(run)):
            self._close(run)
        else:
            self._sender.record(run)
            if self._quiet(run) >= self._around.retries.drain_timeout:
                # Told before the marker is given up: a queue that goes away each time before that
                # would never get there, and the database be blamed.
                self._around.progress.lost()

    def _is_quiet(self, run: ForwardingRun) -> bool:
        retries = self._around.retries
        patience = retries.drain_timeout if run.marker is None else retries.marker_timeout
        return self._quiet(run) >= patience

    def _quiet(self, run: ForwardingRun) -> timedelta:
        return timedelta(seconds=self._around.clock.monotonic() - run.quiet_since)

    def _close(self, run: ForwardingRun) -> None:
        """Delete the batch if all of it is recorded, else move the rest on: nothing can hang."""
        around = self._around
        self._sender.record(run)
        over = run.marker_seen or self._is_quiet(run)
        if over and (run.misses_marker or run.got_nothing):
            # A predecessor is handed the copies: it was frozen when its batch was done, or lost.
            self._queue.delete()
        unrecorded = complete_batch(around.db, around.lease.fence, run.batch)
        around.crash_point(CrashPoint.FORWARDING_COMPLETED)
        if unrecorded == 0:
            around.progress.made()
            self.leave()
            around.watcher.passed(Stage.FORWARDING, around.clock.monotonic() - run.began)
            around.say(
                "batch.forwarded",
                batch_id=run.batch.batch_id,
                operation_id=run.batch.operation_id,
            )
        elif over:
            self._move_rest(run)

    def _move_rest(self, run: ForwardingRun) -> None:
        around = self._around
        rest = move_rest(
            around.db,
            around.lease.fence,
            run.batch,
            session_id=around.retries.session_id,
            made_progress=run.made_progress,
        )
        around.crash_point(CrashPoint.FORWARDING_MOVED)
        self.leave()
        if rest is None or run.made_progress:
            around.progress.made()
        else:
            around.progress.lost()
        if rest is None:
            return
        around.say(
            "batch.moved",
            batch_id=run.batch.batch_id,
            operation_id=run.batch.operation_id,
            new_batch_id=rest.batch_id,
            size=rest.size,
            reason=f"{rest.size} of {run.batch.message_count} copies {_NOT_GIVEN_BACK}",
        )
        if rest.stage_attempts >= _LOSSES_BEFORE_BACKING_OFF:
            self._back_off(run.batch, rest)

    def _back_off(self, batch: RetryBatch, rest: MovedRest) -> None:
        # If somebody else takes the copies off the queue, this ends their consumer, too.
        self._queue.delete()
        around, reason = self._around, batch_reason(batch)
        back_off_batch(around.db, around.lease.fence, rest.batch_id, wait=_LOSS_WAIT, reason=reason)
        around.crash_point(CrashPoint.FORWARDING_BACKED_OFF)
        if rest.stage_attempts == _LOSSES_BEFORE_BACKING_OFF:
            around.say(
                "batch.backing_off",
                batch_id=rest.batch_id,
                operation_id=batch.operation_id,
                reason=reason,
            )
