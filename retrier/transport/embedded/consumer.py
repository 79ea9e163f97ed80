"""Takes messages off one queue; when it closes, it gives back what it did not acknowledge."""

from collections.abc import Callable, Sequence
from threading import Event
from time import monotonic
from typing import TypeVar

from retrier.domain.wire import Delivery
from retrier.errors import BrokerUnavailable
from retrier.transport.embedded.hold import Hold
from retrier.transport.embedded.queues_db import QueuesDb
from retrier.transport.embedded.rows import HoldLost, QueueGone, Tag

FIRST = 0.01
LAST = 0.05


class Idling:
    """Waits that grow from 10 ms: a busy queue is read quickly, an idle one costs little."""

    def __init__(self, longest: float = LAST) -> None:
        """`longest` is the longest wait in seconds."""
        self._longest = longest
        self._next = min(FIRST, longest)
        self._never = Event()

    def wait(self, left: float | None) -> None:
        """Wait once, no longer than `left` seconds."""
        self._never.wait(self._next if left is None else min(self._next, left))
        self._next = min(2 * self._next, self._longest)


T = TypeVar("T")


class EmbeddedConsumer:
    """One holder on a file of its own; the first error closes it for good."""

    def __init__(self, db: QueuesDb, queue: str, prefetch: int, lease: float) -> None:
        """Consume an existing queue; `close` closes the file. Raises BrokerUnavailable."""
        self._db = db
        self._queue = queue
        self._prefetch = prefetch
        self._unsettled: set[Tag] = set()
        self._counted: set[Tag] = set()
        """The unsettled tags that count against the prefetch: handed out since it was set."""
        try:
            self._queue_id = self._find()
            self._hold: Hold | None = Hold(db, lease)
        except BrokerUnavailable:
            db.close()
            raise

    def receive(self, limit: int, timeout: float) -> list[Delivery]:
        """Return up to `limit` messages. Raises BrokerUnavailable. See the seam."""
        deadline = monotonic() + timeout
        idling = Idling()
        while True:
            deliveries = self._guarded(lambda hold: self._take(hold, limit))
            left = deadline - monotonic()
            if deliveries or left <= 0:
                return deliveries
            idling.wait(left)

    def ack(self, deliveries: Sequence[Delivery]) -> None:
        """Acknowledge these messages, in one transaction. Raises BrokerUnavailable."""
        self._settle(deliveries, self._db.forget)

    def surely_holds(self) -> bool:
        """See the seam."""
        return self._hold is not None and self._hold.is_sure

    def put_back(self, deliveries: Sequence[Delivery]) -> None:
        """Put these messages back in their places in the queue. Raises BrokerUnavailable."""
        self._settle(deliveries, self._db.give_back)

    def cease(self) -> list[Delivery]:
        """Return nothing: what was not received was not handed over. Raises BrokerUnavailable."""
        self._guarded(lambda _hold: None)
        return []

    def rest(self) -> bool:
        """Return False: opening the file again takes no time."""
        return False

    def resume(self, prefetch: int) -> None:
        """Allow this many unacknowledged messages from now on, besides those handed out already.

        Raises BrokerUnavailable.
        """
        self._guarded(lambda _hold: None)
        self._prefetch = prefetch
        self._counted.clear()

    def keep_alive(self) -> None:
        """Do nothing: a file needs no heartbeats."""

    def close(self) -> None:
        """Give everything back, close the file; never raises, waits some seconds at most."""
        hold, self._hold = self._hold, None
        if hold is not None:
            hold.close()
        self._db.close()

    def _find(self) -> int:
        queue = self._db.look(self._queue)
        if queue is None:
            raise QueueGone(f"the embedded broker {self._db.place}: no queue {self._queue!r}")
        return queue.id

    def _take(self, hold: Hold, limit: int) -> list[Delivery]:
        room = min(limit, self._prefetch - len(self._counted))
        if room <= 0:
            return []
        taken = hold.take(self._queue, room, self._queue_id)
        self._unsettled.update(held.tag for held in taken)
        self._counted.update(held.tag for held in taken)
        return [
            Delivery(
                tag=held.tag,
                queue=self._queue,
                raw=held.raw,
                body=held.body,
                redelivered=held.redelivered,
            )
            for held in taken
        ]

    def _settle(
        self, deliveries: Sequence[Delivery], settle: Callable[[Sequence[Tag]], int]
    ) -> None:
        tags = [
            each.tag
            for each in deliveries
            if isinstance(each.tag, Tag) and each.tag in self._unsettled
        ]
        self._guarded(lambda hold: _settle_held(hold, tags, settle))
        self._unsettled.difference_update(tags)
        self._counted.difference_update(tags)

    def _guarded(self, act: Callable[[Hold], T]) -> T:
        if self._hold is None:
            raise BrokerUnavailable(f"the embedded broker {self._db.place}: the consumer is closed")
        try:
            return act(self._hold)
        except BrokerUnavailable:
            self.close()
            raise


def _settle_held(hold: Hold, tags: Sequence[Tag], settle: Callable[[Sequence[Tag]], int]) -> None:
    # Fewer are settled if the queue was deleted, which is fine, or if the lease was lost: then
    # other consumers get the messages.
    if settle(tags) < len(tags) and not hold.is_kept():
        raise HoldLost("the lease on the messages ran out: others are handed them")
