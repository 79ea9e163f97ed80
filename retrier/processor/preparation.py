"""The window to come: received, sorted, its bodies loaded, its messages made.

All of that may happen while the broker still has the window before, and then it takes no time.
What must not be early is left to the sender: the stamps, without which nothing is published.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from retrier.domain.copies import make_forwarded
from retrier.domain.retry_batch import Ejected
from retrier.domain.wire import Outgoing
from retrier.errors import BrokerUnavailable, DatabaseUnavailable, StagingQueueUnusable
from retrier.processor.forwarding_run import (
    ForwardingRun,
    ReadyCopy,
    WantedCopy,
    refuse_foreign,
)
from retrier.processor.surroundings import Surroundings
from retrier.store.verbs.windows import load_bodies

_BODY_LOST = "its body is not in the database any more: somebody has deleted it"
_GATHERING = 0.005
"""Seconds to wait for the next of the copies that are known to come."""


@dataclass(frozen=True, slots=True)
class Preparation:
    """Gets the next window of a run ready, one ahead at most."""

    around: Surroundings

    def get_ready(self, run: ForwardingRun, *, wait: float) -> None:
        """Receive what is there and make the next window of it; wait so long for the first copy.

        Raises BrokerUnavailable, DatabaseUnavailable, StagingQueueUnusable.
        """
        if run.ready:
            return
        self._receive(run, wait)
        window = run.take_window(self.around.retries.window, self.around.retries.window_bytes)
        if not window:
            return
        try:
            run.ready = self._make(run, window)
        except DatabaseUnavailable:
            run.put_back(window)
            raise

    def get_ready_meanwhile(self, run: ForwardingRun) -> None:
        """Do so while the broker has a window, whose outcomes no trouble here may lose.

        Whatever is the matter, the next turn meets it again.
        """
        with suppress(BrokerUnavailable, DatabaseUnavailable, StagingQueueUnusable):
            self.get_ready(run, wait=0)

    def _receive(self, run: ForwardingRun, wait: float) -> None:
        around = self.around
        room = around.retries.window - len(run.inbox)
        if room <= 0:
            return
        consumer = around.broker.consumer(around.retries.prefetch)
        deliveries = consumer.receive(room, wait)
        # The first copies come one by one: a window of them would cost as much as a full one.
        while deliveries and len(deliveries) < min(room, run.outstanding):
            more = consumer.receive(room - len(deliveries), _GATHERING)
            if not more:
                break
            deliveries += more
        arrived = run.arrived
        foreign = run.sort(deliveries, around.broker.transport.codec)
        if foreign:
            consumer.put_back(foreign)
            raise refuse_foreign(len(foreign))
        # Where there is order, what nobody asked for is no sign that more will come: somebody
        # who keeps putting things there would keep the batch open for ever.
        ordered = around.broker.transport.capabilities.ordered
        if run.arrived > arrived or (deliveries and not ordered):
            run.quiet_since = around.clock.monotonic()

    def _make(self, run: ForwardingRun, window: Sequence[WantedCopy]) -> list[ReadyCopy]:
        """Make the messages that the batch claims; a copy of any other is acked unsent."""
        claimed = [copy for copy in window if copy.stamps.unique_message_id in run.members]
        numbers = [run.members[copy.stamps.unique_message_id] for copy in claimed]
        bodies = load_bodies(self.around.db, numbers)
        # Only now: with the database away all of the window is put back, and taken once more. A
        # copy that was noted before would be acked twice, for which the broker closes the channel.
        run.droppable += [
            copy.delivery for copy in window if copy.stamps.unique_message_id not in run.members
        ]
        made = [
            self._make_one(run, copy, number, bodies.get(number, b""))
            for copy, number in zip(claimed, numbers, strict=True)
        ]
        return [ready for ready in made if ready is not None]

    def _make_one(
        self, run: ForwardingRun, copy: WantedCopy, number: int, body: bytes | None
    ) -> ReadyCopy | None:
        """Make one message; it is reverted if somebody has deleted its body.

        Where there is not even such a message any more the body is empty: it cannot be stamped,
        and so it is not sent.
        """
        if body is None:
            unique_id = copy.stamps.unique_message_id
            lost = Ejected(number=number, unique_message_id=unique_id, reason=_BODY_LOST)
            run.settle((), [lost])
            run.unacked.append(copy.delivery)
            return None
        codec = self.around.broker.transport.codec
        raw = make_forwarded(codec, copy.delivery.raw, copy.stamps.noted)
        outgoing = Outgoing(queue=copy.stamps.target, raw=raw, body=body)
        return ReadyCopy(number=number, copy=copy, outgoing=outgoing)
