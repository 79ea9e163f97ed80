"""A broker's queues in memory: order, prefetch, unacknowledged messages, one active consumer."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from retrier.domain.wire import Delivery
from retrier.errors import BrokerUnavailable


@dataclass(frozen=True, slots=True, order=True)
class Tag:
    """Where a message stands in its queue, and how often it came back: no stale tag is valid."""

    arrival: int
    returns: int = 0


def tag_of(delivery: Delivery) -> Tag:
    """Return the tag of a delivery from this broker."""
    assert isinstance(delivery.tag, Tag)
    return delivery.tag


def come_back(delivery: Delivery) -> Delivery:
    """Return a delivery as it will be handed out again."""
    tag = tag_of(delivery)
    return replace(delivery, redelivered=True, tag=Tag(tag.arrival, tag.returns + 1))


@dataclass(slots=True, eq=False)
class MemoryQueue:
    """One queue. `ready` is in order of arrival, whatever was handed out and came back."""

    name: str
    single_active: bool = False
    ready: deque[Delivery] = field(default_factory=deque)
    subscriptions: list["Subscription"] = field(default_factory=list)

    def hand_out(self) -> None:
        """Push ready messages to whoever may have them, as a broker does unasked."""
        for subscription in self.subscriptions[: 1 if self.single_active else None]:
            while self.ready and subscription.has_room:
                subscription.take(self.ready.popleft())

    def take_back(self, deliveries: Iterable[Delivery]) -> None:
        """Put messages back where they stood, marked redelivered."""
        self.ready = deque(sorted([*map(come_back, deliveries), *self.ready], key=tag_of))


@dataclass(slots=True, eq=False)
class Subscription:
    """One consumer as the broker sees it: what it was handed and has not acknowledged."""

    queue: MemoryQueue
    prefetch: int
    unacked: dict[object, Delivery] = field(default_factory=dict)
    inbox: deque[Delivery] = field(default_factory=deque)
    earlier: set[object] = field(default_factory=set)
    """Tags of what was unacknowledged when its prefetch was set anew: that does not count."""
    gone: str | None = None
    ceased: bool = False

    @property
    def has_room(self) -> bool:
        """Whether the prefetch lets one more in."""
        return not self.ceased and len(self.unacked) - len(self.earlier) < self.prefetch

    def widen(self, prefetch: int) -> None:
        """Be handed so many more, besides what is unacknowledged already."""
        self.ceased = False
        self.prefetch = prefetch
        self.earlier = set(self.unacked)
        self.queue.hand_out()

    def cease(self) -> list[Delivery]:
        """Be handed nothing more; return what waits in the inbox."""
        self.ceased = True
        waiting = list(self.inbox)
        self.inbox.clear()
        return waiting

    def take(self, delivery: Delivery) -> None:
        """Be handed a message."""
        self.unacked[delivery.tag] = delivery
        self.inbox.append(delivery)

    def settle(self, deliveries: Iterable[Delivery]) -> list[Delivery]:
        """Forget messages that are acknowledged or put back; each must be ours, once."""
        settled = list(deliveries)
        for delivery in settled:
            assert self.unacked.pop(delivery.tag, None), f"not ours to settle: {delivery.tag}"
            self.earlier.discard(delivery.tag)
        return settled

    def end(self, reason: str) -> None:
        """End it: what it had goes back to the queue and to the next consumer."""
        if self.gone is not None:
            return
        self.gone = reason
        self.queue.subscriptions.remove(self)
        self.queue.take_back(self.unacked.values())
        self.unacked.clear()
        self.inbox.clear()
        self.queue.hand_out()


class MemoryBroker:
    """All queues of one broker. Tests put messages in and look at what is there."""

    def __init__(self) -> None:
        self.queues: dict[str, MemoryQueue] = {}
        self.down: str | None = None
        self._arrivals = 0

    def declare(self, name: str, *, single_active: bool = False) -> None:
        """Make sure that a queue exists; one that does is left as it is."""
        self.queues.setdefault(name, MemoryQueue(name, single_active))

    def put(self, name: str, raw: bytes, body: bytes = b"", *, redelivered: bool = False) -> None:
        """Put one message at the end of a queue, declaring it if need be."""
        self.declare(name)
        self._arrivals += 1
        delivery = Delivery(
            tag=Tag(self._arrivals), queue=name, raw=raw, body=body, redelivered=redelivered
        )
        self.queues[name].ready.append(delivery)
        self.queues[name].hand_out()

    def ready(self, name: str) -> list[Delivery]:
        """Return what lies in a queue and is handed out to nobody."""
        return list(self.queues[name].ready)

    def unacked(self, name: str) -> list[Delivery]:
        """Return what a queue has handed out and nobody has acknowledged."""
        return [
            delivery
            for subscription in self.queues[name].subscriptions
            for delivery in subscription.unacked.values()
        ]

    def holds(self, name: str) -> list[Delivery]:
        """Return every message of a queue, ready or not, in order of arrival."""
        return sorted([*self.ready(name), *self.unacked(name)], key=tag_of)

    def subscribe(self, name: str, prefetch: int) -> Subscription:
        """Let somebody consume a queue. Raises BrokerUnavailable if there is none."""
        if name not in self.queues:
            raise BrokerUnavailable(f"no queue {name!r}")
        subscription = Subscription(self.queues[name], prefetch)
        self.queues[name].subscriptions.append(subscription)
        self.queues[name].hand_out()
        return subscription

    def delete(self, name: str) -> None:
        """Delete a queue with all it holds; its consumers are cancelled."""
        queue = self.queues.pop(name, None)
        for subscription in list(queue.subscriptions) if queue else []:
            subscription.end(f"queue {name!r} was deleted")
