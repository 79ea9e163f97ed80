"""One window of forwarding: stamped copies are published, and every outcome is settled."""

from collections.abc import Mapping, Sequence
from typing import assert_never

from retrier.domain.copies import make_forwarded
from retrier.domain.retry_batch import Ejected, RetryBatch, StampedMessage
from retrier.domain.wire import (
    ChannelClosed,
    Confirmed,
    Outcome,
    Outgoing,
    Refused,
    Returned,
    Unknown,
)
from retrier.errors import BrokerUnavailable, DatabaseUnavailable
from retrier.processor.forwarding_run import ForwardingRun, WantedCopy
from retrier.processor.surroundings import Surroundings
from retrier.store.forwarding import open_window


class WindowSender:
    """Stamps, publishes and settles windows; records each before the next is published."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around

    def send(self, run: ForwardingRun, window: Sequence[WantedCopy]) -> None:
        """Record the window before, then send this one. An empty window only records.

        Raises BrokerUnavailable after recording what was confirmed, LeaseLost,
        DatabaseUnavailable.
        """
        try:
            stamped = self._open(run, [copy.stamps.unique_message_id for copy in window])
            self._around.lease.ensure_fresh()
        except DatabaseUnavailable:
            # Nothing of this window is sent yet: it is taken up again with the same copies.
            run.put_back(window)
            raise
        bodies = {message.unique_message_id: message for message in stamped}
        # A copy without a claim of this batch, or with a recorded one, is acked unsent.
        run.droppable += [c.delivery for c in window if c.stamps.unique_message_id not in bodies]
        sendable = [copy for copy in window if copy.stamps.unique_message_id in bodies]
        self._ack(run)
        if sendable:
            self._publish(run, sendable, bodies)

    def record(self, run: ForwardingRun) -> None:
        """Record what is settled, then ack it; nothing happens when nothing is settled.

        Raises LeaseLost, DatabaseUnavailable, BrokerUnavailable.
        """
        if run.finished:
            self._open(run, [])
        self._ack(run)

    def _open(self, run: ForwardingRun, unique_ids: Sequence[str]) -> tuple[StampedMessage, ...]:
        around = self._around
        stamped = open_window(
            around.db, around.lease.fence, run.batch, finished=run.finished, unique_ids=unique_ids
        )
        for item in run.finished.reverted:
            around.say("message.reverted", message=item.unique_message_id, reason=item.reason)
        run.finished = type(run.finished)()
        # Only what was settled before this transaction may be acked after it.
        run.droppable += run.unacked
        run.unacked = []
        around.crash_point("forwarding.stamped" if unique_ids else "forwarding.recorded")
        return stamped

    def _ack(self, run: ForwardingRun) -> None:
        if run.droppable:
            self._around.lease.ensure_fresh()
            self._around.broker.consumer(0).ack(run.droppable)
            run.droppable = []
            self._around.crash_point("forwarding.acked")

    def _publish(
        self,
        run: ForwardingRun,
        copies: Sequence[WantedCopy],
        bodies: Mapping[str, StampedMessage],
    ) -> None:
        around = self._around
        outgoing = [self._make_outgoing(copy, bodies) for copy in copies]
        outcomes = around.broker.publisher.publish(outgoing, around.lease.check)
        around.crash_point("forwarding.published")
        doubtful = self._settle(run, copies, outcomes)
        for copy in doubtful:
            self._send_alone(run, copy, bodies)

    def _make_outgoing(self, copy: WantedCopy, bodies: Mapping[str, StampedMessage]) -> Outgoing:
        codec = self._around.broker.transport.codec
        return Outgoing(
            queue=copy.stamps.target,
            raw=make_forwarded(codec, copy.delivery.raw),
            body=bodies[copy.stamps.unique_message_id].body,
        )

    def _settle(
        self, run: ForwardingRun, copies: Sequence[WantedCopy], outcomes: Sequence[Outcome]
    ) -> list[WantedCopy]:
        """Note every outcome; return the copies that must be sent again, one by one."""
        forwarded: list[str] = []
        reverted: list[Ejected] = []
        doubtful: list[WantedCopy] = []
        lost: str | None = None
        for copy, outcome in zip(copies, outcomes, strict=True):
            unique_id = copy.stamps.unique_message_id
            match outcome:
                case Confirmed():
                    forwarded.append(unique_id)
                case Returned(reason) | Refused(reason):
                    words = _explain(copy, reason)
                    reverted.append(Ejected(unique_message_id=unique_id, reason=words))
                case ChannelClosed():
                    doubtful.append(copy)
                    continue
                case Unknown(reason):
                    lost = reason
                    continue
                case _ as never:
                    assert_never(never)
            run.unacked.append(copy.delivery)
        run.settle(forwarded, reverted)
        if lost is not None:
            self._record_before_leaving(run, lost)
        return doubtful

    def _record_before_leaving(self, run: ForwardingRun, reason: str) -> None:
        """Record what is confirmed before the rest is derived again: only that is in doubt."""
        if run.finished:
            self._open(run, [])
        raise BrokerUnavailable(reason)

    def _send_alone(
        self, run: ForwardingRun, copy: WantedCopy, bodies: Mapping[str, StampedMessage]
    ) -> None:
        """Send one copy by itself and record it before the next one.

        The broker closes a channel without naming the guilty message; sent alone, the one that
        closes it again is known, and reverted with the broker's words.
        """
        around = self._around
        self.record(run)
        around.lease.ensure_fresh()
        outgoing = [self._make_outgoing(copy, bodies)]
        (outcome,) = around.broker.publisher.publish(outgoing, around.lease.check)
        if isinstance(outcome, ChannelClosed):
            outcome = Refused(outcome.reason)
        self._settle(run, [copy], [outcome])
        self.record(run)


def batch_reason(batch: RetryBatch) -> str:
    """Say in a sentence that the staging queue does not give back what was put into it."""
    return (
        f"the staging queue loses messages: batch {batch.batch_id} was staged "
        f"{batch.stage_attempts + 1} times and none of its copies came back"
    )


def _explain(copy: WantedCopy, reason: str) -> str:
    return f"the broker would not take the retry to {copy.stamps.target}: {reason}"
