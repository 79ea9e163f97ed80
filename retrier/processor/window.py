"""One window of forwarding: stamped copies are published, and every outcome is settled."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import assert_never

from retrier.domain.retry_batch import Ejected, RetryBatch, RevertCause, StampedMessage
from retrier.domain.wire import (
    ChannelClosed,
    Confirmed,
    Outcome,
    Refused,
    Returned,
    Unknown,
)
from retrier.errors import BrokerUnavailable, DatabaseUnavailable
from retrier.processor.crash_points import CrashPoint
from retrier.processor.forwarding_run import ForwardingRun, ReadyCopy
from retrier.processor.reverts import Reverts
from retrier.processor.surroundings import Surroundings
from retrier.store.verbs.windows import open_window
from retrier.transport.seam import nothing

_MOST_BREAKS = 3
"""So often in a row a message sent alone may break the connection."""
_EARLIER_TRY = "an earlier try was left in doubt and may have arrived"
"""Whoever retries such a message by hand must know that it might be handled twice."""


class WindowSender:
    """Stamps, publishes and settles windows; records each before the next is published."""

    def __init__(
        self,
        around: Surroundings,
        reverts: Reverts,
        meanwhile: Callable[[ForwardingRun], None],
    ) -> None:
        """`meanwhile` is called for a run when its window is written, and not settled yet."""
        self._around = around
        self._reverts = reverts
        self._meanwhile = meanwhile
        self._suspect: int | None = None
        self._breaks = 0

    def send(self, run: ForwardingRun) -> None:
        """Record the window before, then send the one that is ready, but for what is in doubt.

        Messages left in doubt by a crash or a lost connection go one by one: whichever caused
        it cannot double its neighbours once more. Raises BrokerUnavailable after recording what
        was confirmed, LeaseLost, DatabaseUnavailable.
        """
        # Nothing of it is sent before it is stamped: after an error it is as ready as before.
        stamped = self._stamp(run, run.ready)
        window, run.ready = run.ready, []
        fresh: list[ReadyCopy] = []
        for copy in self._leave_out_unclaimed(run, window, stamped):
            in_doubt = stamped[copy.number].in_doubt
            (run.doubtful if in_doubt else fresh).append(copy)
        if fresh:
            outcomes = self._publish(fresh, partial(self._meanwhile, run))
            self._around.crash_point(CrashPoint.FORWARDING_PUBLISHED)
            run.doubtful += self._settle(run, fresh, outcomes)

    def send_alone(self, run: ForwardingRun) -> None:
        """Send the next doubtful copy by itself, after recording the one before.

        The broker closes a channel without naming the guilty message; sent alone, the one that
        closes it again is known, and reverted with the broker's words. So is one that breaks the
        connection each time. Its claim is asked for again: it may have arrived the first time,
        and failed. Raises what `send` raises.
        """
        copy = run.doubtful[0]
        stamped = self._stamp(run, [copy])
        run.doubtful.popleft()
        if not self._leave_out_unclaimed(run, [copy], stamped):
            return
        (outcome,) = self._publish([copy])
        self._around.crash_point(CrashPoint.FORWARDING_SENT_ALONE)
        self._settle(run, [copy], [self._blame(copy.number, outcome)])

    def _blame(self, number: int, outcome: Outcome) -> Outcome:
        """Turn what befell a message sent alone into a refusal, where it is the message's fault.

        Only what is in doubt is sent alone, so the reason of one that is not taken now says so.
        """
        self._breaks = self._breaks + 1 if self._suspect == number else 1
        self._suspect = number if isinstance(outcome, Unknown) else None
        match outcome:
            case ChannelClosed(reason):
                return Refused(reason)
            case Returned(reason):
                return Returned(f"{reason}; {_EARLIER_TRY}")
            case Refused(reason):
                return Refused(f"{reason}; {_EARLIER_TRY}")
            case Unknown(reason) if self._breaks >= _MOST_BREAKS:
                return Refused(
                    f"the connection broke {self._breaks} times in a row while nothing else was "
                    f"sent; it may have arrived: {reason}"
                )
            case _:
                return outcome

    def record(self, run: ForwardingRun) -> None:
        """Record what is settled, then ack it; nothing happens when nothing is settled.

        Raises LeaseLost, DatabaseUnavailable, BrokerUnavailable.
        """
        if run.finished:
            self._open(run, [])
        if run.droppable:
            self._around.lease.ensure_fresh()
            self._ack(run)

    def _stamp(
        self, run: ForwardingRun, copies: Sequence[ReadyCopy]
    ) -> Mapping[int, StampedMessage]:
        stamped = self._open(run, [copy.number for copy in copies])
        self._around.lease.ensure_fresh()
        return {message.number: message for message in stamped}

    def _leave_out_unclaimed(
        self,
        run: ForwardingRun,
        copies: Sequence[ReadyCopy],
        stamped: Mapping[int, StampedMessage],
    ) -> list[ReadyCopy]:
        """Return what may be sent; a copy without an unrecorded claim of this batch is acked."""
        run.droppable += [c.copy.delivery for c in copies if c.number not in stamped]
        self._ack(run)
        return [copy for copy in copies if copy.number in stamped]

    def _open(self, run: ForwardingRun, numbers: Sequence[int]) -> tuple[StampedMessage, ...]:
        around = self._around
        stamped = open_window(
            around.db, around.lease.fence, run.batch, finished=run.finished, numbers=numbers
        )
        if run.finished:
            around.progress.made()
        around.watcher.recorded(run.finished)
        self._reverts.add(run.batch, run.finished.reverted)
        run.finished = type(run.finished)()
        # Only what was settled before this transaction may be acked after it.
        run.droppable += run.unacked
        run.unacked = []
        stamping = bool(numbers)
        around.crash_point(
            CrashPoint.FORWARDING_STAMPED if stamping else CrashPoint.FORWARDING_RECORDED
        )
        return stamped

    def _ack(self, run: ForwardingRun) -> None:
        """Ack what is recorded or unwanted, under a lease that was found fresh just now."""
        if run.droppable:
            self._around.broker.acknowledge(run.droppable)
            run.droppable = []
            self._around.crash_point(CrashPoint.FORWARDING_ACKED)

    def _publish(
        self, copies: Sequence[ReadyCopy], meanwhile: Callable[[], None] = nothing
    ) -> Sequence[Outcome]:
        around = self._around
        outgoing = [copy.outgoing for copy in copies]
        began = around.clock.now()
        outcomes = around.broker.publisher.publish(outgoing, around.lease.check, meanwhile)
        around.watcher.sent(outgoing, outcomes, began)
        return outcomes

    def _settle(
        self, run: ForwardingRun, copies: Sequence[ReadyCopy], outcomes: Sequence[Outcome]
    ) -> list[ReadyCopy]:
        """Note every outcome; return the copies that must be sent again, one by one."""
        forwarded: list[int] = []
        reverted: list[Ejected] = []
        doubtful: list[ReadyCopy] = []
        lost: str | None = None
        for copy, outcome in zip(copies, outcomes, strict=True):
            match outcome:
                case Confirmed():
                    forwarded.append(copy.number)
                case Returned() | Refused():
                    reverted.append(_revert(copy, outcome))
                case ChannelClosed():
                    doubtful.append(copy)
                    continue
                case Unknown(reason):
                    lost = reason
                    continue
                case _ as never:
                    assert_never(never)
            run.unacked.append(copy.copy.delivery)
        run.settle(forwarded, reverted)
        if lost is not None:
            self._record_before_leaving(run, lost)
        return doubtful

    def _record_before_leaving(self, run: ForwardingRun, reason: str) -> None:
        """Record what is confirmed before the rest is derived again: only that is in doubt."""
        # With the database away too it is kept with the run, and recorded before the next one.
        with suppress(DatabaseUnavailable):
            if run.finished:
                self._open(run, [])
        raise BrokerUnavailable(reason)


def batch_reason(batch: RetryBatch) -> str:
    """Say in a sentence that the staging queue does not give back what was put into it."""
    return (
        f"the staging queue loses messages: batch {batch.batch_id} was staged "
        f"{batch.stage_attempts + 1} times and none of its copies came back"
    )


def _revert(copy: ReadyCopy, outcome: Returned | Refused) -> Ejected:
    target, reason = copy.outgoing.queue, outcome.reason
    is_returned = isinstance(outcome, Returned)
    return Ejected(
        number=copy.number,
        unique_message_id=copy.copy.stamps.unique_message_id,
        reason=f"the broker would not take the retry to {target}: {reason}",
        cause=RevertCause.RETURNED if is_returned else RevertCause.REFUSED,
        destination=target,
    )
