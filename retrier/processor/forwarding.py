"""Forwarding: sends the messages of one batch back to where they failed, window by window.

The steps of one window; while it is being published, the next one is made ready:

    receive | sort | make ready | record and stamp | ack | publish | settle

One transaction records a window and stamps the next one. So a crash leaves at most one window in
doubt, which means stamped and not recorded.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

from retrier.domain.copies import read_staged
from retrier.domain.decision import Decided
from retrier.domain.retry_batch import (
    RetryBatch,
)
from retrier.domain.text import count_of
from retrier.domain.wire import (
    Confirmed,
    Outcome,
    Refused,
)
from retrier.errors import BrokerUnavailable, DatabaseUnavailable, StagingQueueUnusable
from retrier.events.processor import (
    BatchForwarded,
    CompletionTried,
    CopiesAcked,
    DoubtMet,
    EndMarkerSent,
    ForwardingBegun,
    RestBackedOff,
    RestMoved,
    RetrySentAlone,
    WindowRecorded,
    WindowSent,
    WindowStamped,
)
from retrier.events.service import EditRecorded
from retrier.overlap import WhileInFlight, nothing_else
from retrier.processor.forwarding_run import ForwardingRun, ReadyRetry, Suspect, settle
from retrier.processor.stage_context import StageContext
from retrier.processor.staging_queue import StagingQueue, make_marker, make_retry
from retrier.store.forwarding import (
    MovedRest,
    back_off_batch,
    complete_batch,
    load_originals,
    move_rest,
    open_window,
)

_GATHERING = 0.005
"""Seconds to wait for the next copy while more are known to come."""


def receive(context: StageContext, run: ForwardingRun, wait: float) -> tuple[ForwardingRun, int]:
    """Receive at most a window of copies; wait up to `wait` seconds for the first one.

    Returns the run with its copies sorted in, and how many copies of another installation were
    put back. Raises BrokerUnavailable, StagingQueueUnusable.
    """
    room = context.retries.window - len(run.inbox)
    if room <= 0:
        return run, 0
    consumer = context.broker.consumer(context.retries.prefetch)
    deliveries = consumer.receive(room, wait)
    # The first copies arrive one by one, and a small window costs as much as a full one.
    while deliveries and len(deliveries) < min(room, run.outstanding):
        more = consumer.receive(room - len(deliveries), _GATHERING)
        if not more:
            break
        deliveries += more
    codec, ours = context.broker.transport.codec, (None, context.retries.installation_id)
    arrived = [(delivery, read_staged(codec, delivery.raw)) for delivery in deliveries]
    foreign = [each for each, copy in arrived if copy and copy.installation_id not in ours]
    if foreign:
        consumer.put_back(foreign)
    sorted_run = run.sort(each for each in arrived if each[0] not in foreign)
    # With order kept, only copies of the batch and its marker count as activity: a stranger who
    # keeps publishing to the queue would else keep the batch open for ever (decision 0007).
    ordered = context.broker.transport.capabilities.ordered
    if sorted_run.arrived > run.arrived or (deliveries and not ordered):
        sorted_run = replace(sorted_run, quiet_since=context.clock.monotonic())
    if not ordered:
        # What came in any order goes out by number, as it failed: a destination may keep order.
        inbox = sorted(sorted_run.inbox, key=lambda copy: copy.number)
        sorted_run = replace(sorted_run, inbox=tuple(inbox))
    return sorted_run, len(foreign)


_LOSSES_BEFORE_BACKING_OFF = 3
_LOSS_WAIT = timedelta(seconds=30)


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
        self._queue = queue
        self._suspect = Suspect()
        self._run: ForwardingRun | None = None

    def run_once(self, batch: RetryBatch) -> RetryBatch | None:
        """Forward one window of the batch that the pointer names, or close the batch.

        Returns the batch if it goes on, else None. Raises BrokerUnavailable after recording what
        was confirmed, LeaseLost, DatabaseUnavailable, StagingQueueUnusable.
        """
        run = self._resume(batch)
        if run.doubtful:
            self._send_alone(run)
        elif (run := self._get_ready(run, _RECEIVE_TIMEOUT if run.expects_copies else 0)).ready:
            self._send_window(run)
        elif run.may_be_done or (not run.finished and self._is_quiet(run)):
            self._close(run)
        elif run.finished:
            self._record(run)
        else:
            self._wait(self._record(run))
        return self._run.batch if self._run is not None else None

    def leave(self) -> None:
        """Stop consuming: no batch is in Forwarding, also if another process ended it."""
        run, self._run = self._run, None
        if run is not None and run.connected and run.finished:
            # The commit that ended the batch was not heard of, and recorded this window, too.
            self._note_recorded(run, WindowRecorded, ())
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
        run = self._run
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
        return self._keep(self._begin(batch, counting=counting))

    def _begin(self, batch: RetryBatch, *, counting: bool) -> ForwardingRun:
        """Begin to forward a batch; without counting, an end marker is published behind its copies.

        Raises BrokerUnavailable, StagingQueueUnusable, LeaseLost, DatabaseUnavailable.
        """
        context = self._context
        # Opened before the marker: a consumer that fails to open would leave one marker per try.
        context.broker.consumer(context.retries.prefetch)
        ordered = context.broker.transport.capabilities.ordered
        marker = self._publish_marker(batch) if ordered and not counting else None
        context.emit(
            ForwardingBegun(
                batch_id=batch.batch_id,
                operation_id=batch.operation_id,
                staging_id=batch.staging_id,
                counting=counting,
            )
        )
        now = context.clock.monotonic()
        return ForwardingRun(
            batch=batch, counting=counting, marker=marker, began=now, quiet_since=now
        )

    def _publish_marker(self, batch: RetryBatch) -> str:
        context = self._context
        nonce, marker = make_marker(context, batch.staging_id or "")
        context.lease.ensure_fresh()
        (outcome,) = context.broker.publisher.publish([marker], context.lease.check)
        # A marker that a full queue refuses is no error: it never arrives, and the run ends by
        # `marker_timeout`. Else the copies that fill the queue would wait for room for the marker.
        if not isinstance(outcome, Confirmed | Refused):
            raise BrokerUnavailable(f"the end marker was not taken: {outcome.reason}")
        context.emit(EndMarkerSent(batch_id=batch.batch_id))
        return nonce

    def _send_window(self, run: ForwardingRun) -> None:
        """Send the window that is ready, without what is in doubt.

        Messages in doubt after a crash or a lost connection go one by one (decision 0007): the
        one that caused it cannot double its neighbours again.
        """
        run, in_doubt = self._record_and_stamp(run, run.ready)
        run, window = run.claimed(in_doubt)
        if run.doubtful:
            # They go again: a crash or a lost connection left them in doubt.
            batch, count = run.batch, len(run.doubtful)
            doubt = DoubtMet(batch_id=batch.batch_id, operation_id=batch.operation_id, count=count)
            self._context.emit(doubt)
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
            raise StagingQueueUnusable(
                f"{count_of(foreign, 'copy', 'copies')} of another Retrier installation came from the "
                "staging queue: two installations share a broker and an instance name. All was put "
                "back. Give one of them another `instance`."
            )
        window = run.next_window(context.retries.window, context.retries.window_bytes)
        if not window:
            return run
        originals = load_originals(
            context.db, [copy.number for copy in window], run.batch.operation_id
        )
        copies = [copy.stamps for copy in window if copy.number in originals]
        made = {each.number: make_retry(context, each, originals[each.number]) for each in copies}
        edited = [number for number, each in originals.items() if each and each.edited]
        return self._keep(run.made_ready(window, made, edited))

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
        event = WindowStamped if window else WindowRecorded
        run = self._note_recorded(run, event, opened.decided)
        if window:
            context.lease.ensure_fresh()
        return run, {claim.number: claim.in_doubt for claim in opened.stamped}

    def _note_recorded(
        self, run: ForwardingRun, event: type[WindowRecorded], decided: Sequence[Decided]
    ) -> ForwardingRun:
        batch, finished, context = run.batch, run.finished, self._context
        if finished:
            context.progress.made()
        run = self._keep(run.recorded())
        context.emit(
            event(
                batch_id=batch.batch_id,
                operation_id=batch.operation_id,
                result=finished,
                decided=decided,
            )
        )
        if finished.edited:
            context.emit(EditRecorded(batch_id=batch.batch_id, operation_id=batch.operation_id))
        return run

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

    def _wait(self, run: ForwardingRun) -> None:
        """Note that copies are missing, if none has come for long."""
        if self._quiet(run) >= self._context.retries.drain_timeout:
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
        """Record the last window and delete the batch when all of it is recorded; else move its rest.

        Raises LeaseLost, DatabaseUnavailable, BrokerUnavailable.
        """
        context = self._context
        over = run.marker_seen or self._is_quiet(run)
        if over and (run.misses_marker or run.got_nothing):
            run = self._record(run)
            self._queue.end_other_consumers()
        tried = complete_batch(
            context.db, context.lease.fence, run.batch, context.judge, finished=run.finished
        )
        if run.finished:
            run = self._note_recorded(run, WindowRecorded, tried.decided)
        unrecorded = tried.unrecorded
        context.emit(CompletionTried(batch_id=run.batch.batch_id, unrecorded=unrecorded))
        # Behind the commit, so a crash in between leaves copies that the next staging purges.
        run = self._record(run)
        if unrecorded == 0:
            context.progress.made()
            self.leave()
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
        self.leave()
        if rest is None or run.made_progress:
            context.progress.made()
        else:
            context.progress.lost()
        if rest is not None and rest.stage_attempts >= _LOSSES_BEFORE_BACKING_OFF:
            self._back_off(run.batch, rest)

    def _back_off(self, batch: RetryBatch, rest: MovedRest) -> None:
        self._queue.end_other_consumers()
        context = self._context
        reason = (
            f"the staging queue loses messages: batch {batch.batch_id} was staged "
            f"{batch.stage_attempts + 1} times and none of its copies came back"
        )
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
