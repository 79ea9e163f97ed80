"""Forwarding: sends the messages of one batch back to where they failed, window by window.

The steps of one window; while it is being published, the next one is made ready:

    receive | sort | make ready | record and stamp | ack | publish | settle

One transaction records a window and stamps the next one. So a crash leaves at most one window in
doubt, which means stamped and not recorded.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from retrier.domain.retry_batch import RetryBatch
from retrier.domain.wire import Outcome
from retrier.errors import BrokerUnavailable, DatabaseUnavailable, StagingQueueUnusable
from retrier.events.processor import (
    CopiesAcked,
    RetrySentAlone,
    WindowSent,
)
from retrier.overlap import WhileInFlight, nothing_else
from retrier.processor.forwarding_run import ForwardingRun
from retrier.processor.run_bounds import RunEnd, begin_run, tell_doubt, tell_window
from retrier.processor.stage_context import StageContext
from retrier.processor.staging_queue import StagingQueue, make_retry, receive, refuse_foreign
from retrier.processor.window import ReadyRetry, Suspect, settle
from retrier.store.forwarding import load_originals, open_window

_RECEIVE_TIMEOUT = 0.2
"""Seconds one turn waits for copies; short, so that a stop is noticed."""


class Forwarding:
    """Forwards the batch that the pointer names.

    If this process staged the batch itself (counting mode), the frozen count says when it may be
    done. Otherwise an end marker does: the staging queue keeps order, so no copy of the batch is
    behind the marker. On a transport without order, a time without copies does.
    """

    def __init__(
        self, context: StageContext, queue: StagingQueue, staged_here: Callable[[], str | None]
    ) -> None:
        self._context = context
        self._staged_here = staged_here
        self._end = RunEnd(context, queue, self.leave)
        self._suspect = Suspect()
        self._run: ForwardingRun | None = None
        self._is_run_current = False
        """Whether the last turn ended without an error, so that `_run` is still true."""

    @property
    def going_on(self) -> RetryBatch | None:
        """The batch of the last turn, if that ended without an error; saves asking the database.

        Safe, because only the holder of the lease ends a batch, and each commit checks the lease.
        """
        return self._run.batch if self._is_run_current and self._run is not None else None

    def run_once(self, batch: RetryBatch) -> None:
        """Forward one window of the batch that the pointer names, or close the batch.

        Raises BrokerUnavailable after recording what was confirmed, LeaseLost,
        DatabaseUnavailable, StagingQueueUnusable.
        """
        run = self._resume(batch)
        self._is_run_current = False
        if run.doubtful:
            self._send_alone(run)
        elif (run := self._get_ready(run, _RECEIVE_TIMEOUT if run.expects_copies else 0)).ready:
            self._send_window(run)
        elif run.finished and not run.may_be_done:
            self._record(run)
        else:
            self._end.close_or_wait(self._record(run))
        self._is_run_current = True

    def leave(self) -> None:
        """Stop consuming: no batch is in Forwarding, also if another process ended it."""
        self._run = None
        self._context.broker.rest_consumer()

    def hand_over(self) -> None:
        """Before a stop, record and ack what is confirmed: else the next process sends it again.

        Raises LeaseLost, DatabaseUnavailable, BrokerUnavailable.
        """
        if self._run is not None:
            self._record(self._run)

    def forget(self) -> None:
        """Forget the run with its connection: the batch goes on in non-counting mode.

        What is confirmed but not recorded yet is kept, and the next run records it first: it must
        not be sent again only because the database was away.
        """
        run, self._is_run_current = self._run, False
        self._run = run.disconnected() if run is not None and run.finished else None

    def _keep(self, run: ForwardingRun) -> ForwardingRun:
        """Store the run at once: if the next step raises, what it holds must not be lost."""
        self._run = run
        return run

    def _resume(self, batch: RetryBatch) -> ForwardingRun:
        run = self._run
        if run is not None and run.batch.batch_id == batch.batch_id:
            if run.connected:
                return run
            self._record(run)
        counting = self._staged_here() == batch.batch_id
        return self._keep(begin_run(self._context, batch, counting=counting))

    def _send_window(self, run: ForwardingRun) -> None:
        """Send the window that is ready, without what is in doubt.

        Messages in doubt after a crash or a lost connection go one by one (decision 0007): the
        one that caused it cannot double its neighbours again.
        """
        run, in_doubt = self._record_and_stamp(run, run.ready)
        run, window = run.claimed(in_doubt)
        tell_doubt(self._context, run)
        run = self._ack(self._keep(run))
        outcomes = self._publish(window, WindowSent, self._get_next_ready)
        # `_get_next_ready` has put the next window into `self._run` only: `run` is older.
        self._settle(self._run or run, window, outcomes)

    def _send_alone(self, run: ForwardingRun) -> None:
        """Send the next doubtful retry by itself, after recording the one before.

        The broker closes a channel without naming the message at fault. Sent alone, the one that
        closes it again is known and is reverted with the broker's reason, as is one that breaks
        the connection each time. The claim is stamped again first: the message may have arrived
        at the first try and had its outcome, and then its claim is gone.
        """
        run, in_doubt = self._record_and_stamp(run, run.doubtful[:1])
        run, window = run.claimed_alone(in_doubt)
        run = self._ack(self._keep(run))
        outcomes = self._publish(window, RetrySentAlone)
        if outcomes:
            self._suspect, *outcomes = self._suspect.blame(window[0].number, outcomes[0])
        self._settle(run, window, outcomes)

    def _get_ready(self, run: ForwardingRun, wait: float) -> ForwardingRun:
        """Make the next window ready, if there is one: receive and sort copies, make the retries.

        Nothing of it is sent before it is stamped. So this may run while the previous window is
        in flight, where the broker has to be waited for anyway.
        """
        if run.ready:
            return run
        context = self._context
        run, foreign = receive(context, run, wait)
        self._keep(run)
        if foreign:
            raise refuse_foreign(foreign)
        window = run.next_window(context.retries.window, context.retries.window_bytes)
        if not window:
            return run
        originals = load_originals(
            context.db, [copy.number for copy in window], run.batch.operation_id
        )
        copies = [copy.stamps for copy in window if copy.number in originals]
        made = {each.number: make_retry(context, each, originals[each.number]) for each in copies}
        return self._keep(run.made_ready(window, made))

    def _get_next_ready(self) -> bool:
        """Make the next window ready while one is in flight; return False: there is no more to do.

        Errors are dropped, as raising would lose the outcomes in flight: the next turn meets them.
        """
        with suppress(BrokerUnavailable, DatabaseUnavailable, StagingQueueUnusable):
            if self._run is not None:
                self._get_ready(self._run, wait=0)
        return False

    def _record_and_stamp(
        self, run: ForwardingRun, window: Sequence[ReadyRetry]
    ) -> tuple[ForwardingRun, Mapping[int, bool]]:
        """Record what is settled, and stamp the claims of this window.

        Returns by number which claims are stamped, and whether each was stamped before (in doubt).
        Raises LeaseLost, DatabaseUnavailable.
        """
        context, numbers = self._context, [retry.number for retry in window]
        db, fence = context.db, context.lease.fence
        new = not run.doubtful  # what goes one by one was told with the window that met it
        batch, finished, judge = run.batch, run.finished, context.judge
        opened = open_window(
            db, fence, batch, judge, finished=finished, numbers=numbers, tell_doubt=new
        )
        if run.finished:
            context.progress.made()
        run = self._keep(run.recorded())
        tell_window(context, batch, finished, opened.decided, stamped=bool(window))
        if window:
            context.lease.ensure_fresh()
        return run, {claim.number: claim.in_doubt for claim in opened.stamped}

    def _record(self, run: ForwardingRun) -> ForwardingRun:
        """Record what is settled, then ack it; nothing happens when nothing is settled.

        Raises LeaseLost, DatabaseUnavailable, BrokerUnavailable.
        """
        if run.finished:
            run, _ = self._record_and_stamp(run, ())
        if run.droppable:
            self._context.lease.ensure_fresh()
        return self._ack(run)

    def _ack(self, run: ForwardingRun) -> ForwardingRun:
        """Ack what is recorded or unwanted. The caller has just found the lease fresh."""
        if not run.droppable:
            return run
        self._context.broker.acknowledge(run.droppable)
        acked = self._keep(run.acked())
        self._context.emit(CopiesAcked(count=len(run.droppable)))
        return acked

    def _publish(
        self,
        window: Sequence[ReadyRetry],
        event: type[WindowSent],
        while_in_flight: WhileInFlight = nothing_else,
    ) -> Sequence[Outcome]:
        if not window:
            return ()
        context = self._context
        outgoing = [retry.outgoing for retry in window]
        began = context.clock.now()
        outcomes = context.broker.publisher.publish(outgoing, context.lease.check, while_in_flight)
        context.emit(event(messages=outgoing, outcomes=outcomes, began=began))
        return outcomes

    def _settle(
        self, run: ForwardingRun, window: Sequence[ReadyRetry], outcomes: Sequence[Outcome]
    ) -> None:
        """Note the outcomes. Raises BrokerUnavailable if a lost connection left some unsettled."""
        settlement = settle(window, outcomes)
        run = self._keep(run.settled(settlement, self._context.clock.monotonic()))
        if settlement.lost is not None:
            # Record first, so that only the unsettled rest is in doubt. If the database is away,
            # too, `forget` keeps the outcomes, and they are recorded before the next run.
            with suppress(DatabaseUnavailable):
                if run.finished:
                    self._record_and_stamp(run, ())
            raise BrokerUnavailable(settlement.lost)
