"""Publisher, consumer and queues of the scripted transport."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import ClassVar, TypeVar

from retrier.domain.wire import (
    ChannelClosed,
    Confirmed,
    Delivery,
    Outcome,
    Outgoing,
    Returned,
    Unknown,
)
from retrier.errors import BrokerUnavailable, StagingQueueUnusable
from retrier.overlap import WhileInFlight, nothing_else
from retrier.transport.seam import DeliveryLimit, QueueLook, Unsettled
from tests.support.script import Script

T = TypeVar("T")


class ScriptedConnection:
    """What publisher, consumer and queues share: they break, they close, they tell."""

    kind: ClassVar[str]

    def __init__(self, script: Script) -> None:
        self.script = script
        self.broken: str | None = None
        self.given_up = False

    def call(self, verb: str, act: Callable[[], T]) -> T:
        """Do one call of the seam; whatever breaks it makes the object useless."""
        name = f"{self.kind}.{verb}"
        try:
            self.script.enter(name)
        except BrokerUnavailable as error:
            self.break_off(str(error))
            raise
        if self.broken is not None:
            raise BrokerUnavailable(self.broken)
        result = act()
        self.script.after_call(name)
        return result

    def break_off(self, reason: str) -> None:
        """Break the connection for good."""
        self.broken = self.broken or reason
        if self in self.script.connections:
            self.script.connections.remove(self)

    def keep_alive(self) -> None:
        """Do nothing (seam)."""

    def close(self) -> None:
        """Drop the connection (seam)."""
        self.script.calls.append(f"{self.kind}.close")
        self.break_off("closed")


class ScriptedPublisher(ScriptedConnection):
    """Publishes windows as the script says."""

    kind = "publisher"

    def __init__(self, script: Script, probe: Outgoing | None) -> None:
        super().__init__(script)
        self.probe = probe
        self._fresh = True
        self._probe()

    @property
    def awaited(self) -> Unsettled:
        """Return what the script says (seam)."""
        return self.script.awaited

    def publish(
        self,
        messages: Iterable[Outgoing],
        waiting: Callable[[], None],
        while_in_flight: WhileInFlight = nothing_else,
    ) -> tuple[Outcome, ...]:
        """Publish all and settle every one of them (seam)."""
        return self.call("publish", lambda: self._publish(iter(messages), waiting, while_in_flight))

    def _publish(
        self,
        messages: Iterator[Outgoing],
        waiting: Callable[[], None],
        while_in_flight: WhileInFlight,
    ) -> tuple[Outcome, ...]:
        self._probe()
        outcomes: list[Outcome] = []
        for message in messages:
            outcome, settled = self._send(message)
            outcomes.append(outcome)
            if isinstance(outcome, ChannelClosed | Unknown):
                self._fresh = True
                sent = len(outcomes) + len(list(messages))
                outcomes = outcomes[:settled] + [outcome] * (sent - settled)
        while while_in_flight():
            pass
        for _ in range(self.script.waits):
            waiting()
        return tuple(outcomes)

    def _send(self, message: Outgoing) -> tuple[Outcome, int]:
        cue = self.script.take_cue(message)
        exists = message.queue in self.script.broker.queues
        if exists and (cue is None or cue.stored or isinstance(cue.outcome, Confirmed)):
            self.script.broker.put(message.queue, message.raw, message.body)
            self.script.published.append(message)
        if cue is not None:
            return cue.outcome, cue.settled
        return (Confirmed() if exists else Returned(f"NO_ROUTE: no queue {message.queue!r}")), 0

    def _probe(self) -> None:
        if self._fresh and (probe := self.probe) is not None:
            self.script.enter("publisher.probe")
            if self.script.probes and probe.queue in self.script.broker.queues:
                self.script.broker.put(probe.queue, probe.raw, probe.body)
        self._fresh = False


class ScriptedConsumer(ScriptedConnection):
    """Takes messages off one queue; the broker pushes them as far as the prefetch goes."""

    kind = "consumer"

    def __init__(self, script: Script, queue: str, prefetch: int) -> None:
        super().__init__(script)
        self._queue = queue
        self._subscribe(prefetch)

    @property
    def prefetch(self) -> int:
        """Return how many unacknowledged messages are allowed."""
        return self.subscription.prefetch

    def receive(self, limit: int, timeout: float) -> list[Delivery]:
        """Return up to `limit` messages; an empty queue passes the time by `on_idle` (seam)."""
        return self.call("receive", lambda: self._receive(limit, timeout))

    def ack(self, deliveries: Sequence[Delivery]) -> None:
        """Acknowledge (seam). Fails the test on a delivery that is not this consumer's."""
        self.call("ack", lambda: self._ack(deliveries))

    def surely_holds(self) -> bool:
        """Say no after the script has stood still (seam)."""
        return self.broken is None and not self.given_up

    def put_back(self, deliveries: Sequence[Delivery]) -> None:
        """Hand messages back to their queue, where they stood (seam)."""
        self.call("put_back", lambda: self._put_back(deliveries))

    def cease(self) -> list[Delivery]:
        """Consume no more; return what was not received (seam)."""
        return self.call("cease", self.subscription.cease)

    def rest(self) -> bool:
        """Stop consuming, unless something is unacknowledged (seam)."""
        if self.broken is not None or self.subscription.unacked:
            return False
        self.subscription.end("it rests")
        return True

    def resume(self, prefetch: int) -> None:
        """Consume again (seam)."""
        self.call("resume", lambda: self._resume(prefetch))

    def break_off(self, reason: str) -> None:
        """Break the connection; what it held goes back."""
        super().break_off(reason)
        self.subscription.end(reason)

    def _receive(self, limit: int, timeout: float) -> list[Delivery]:
        if self.subscription.gone is None and not self.subscription.inbox:
            self.script.on_idle(timeout)
        if self.subscription.gone is not None:
            self.break_off(self.subscription.gone)
            raise BrokerUnavailable(self.subscription.gone)
        inbox = self.subscription.inbox
        return [inbox.popleft() for _ in range(min(limit, len(inbox)))]

    def _ack(self, deliveries: Sequence[Delivery]) -> None:
        if self.subscription.gone is None:
            self.script.acked.extend(self.subscription.settle(deliveries))
            self.subscription.queue.hand_out()

    def _put_back(self, deliveries: Sequence[Delivery]) -> None:
        if self.subscription.gone is None:
            self.subscription.queue.take_back(self.subscription.settle(deliveries))
            self.subscription.queue.hand_out()

    def _resume(self, prefetch: int) -> None:
        if self.subscription.ceased:
            self.subscription.widen(prefetch)
        else:
            self._subscribe(prefetch)

    def _subscribe(self, prefetch: int) -> None:
        self.subscription = self.script.broker.subscribe(self._queue, prefetch)


class ScriptedQueues(ScriptedConnection):
    """Looks at queues and declares them."""

    kind = "queues"

    def look(self, queue: str) -> QueueLook | None:
        """Return what is seen of a queue (seam)."""
        return self.call("look", lambda: self._look(queue))

    def dead_letters(self, queue: str) -> bool | None:
        """Say what the script says (seam)."""
        return self.call("dead_letters", lambda: self.script.dead_letters.get(queue, False))

    def depth(self, queue: str) -> int | None:
        """Return how many messages are ready, or None when there is no such queue (seam)."""
        return self.call("depth", lambda: self._depth(queue))

    def exists(self, queue: str) -> bool:
        """Return whether there is such a queue (seam)."""
        return self.call("exists", lambda: self._depth(queue) is not None)

    def declare_error_queue(self, queue: str) -> bool:
        """Declare it if it is missing; return whether it was (seam)."""
        return self.call("declare_error_queue", lambda: self._declare(queue))

    def why_not_declarable(self, _queue: str) -> str | None:
        """Say that every queue may be declared (seam)."""
        return None

    def declare_staging_queue(self, queue: str) -> None:
        """Make sure it is ours: single active consumer, or empty and declared anew (seam)."""
        self.call("declare_staging_queue", lambda: self._declare_staging(queue))

    def delivery_limit(self, queue: str) -> DeliveryLimit | None:
        """Say which limit it has, if any (seam)."""
        return self.call("delivery_limit", lambda: self.script.limits.get(queue))

    def why_not_ingestible(self, queue: str) -> str | None:
        """Say that no queue is of another kind (seam)."""
        return self.call("why_not_ingestible", lambda: self.script.not_ingestible.get(queue))

    def find_risks(self) -> tuple[str, ...]:
        """Say what the script says (seam)."""
        return self.script.risks

    def purge(self, queue: str) -> int:
        """Drop every ready message; return how many (seam)."""
        return self.call("purge", lambda: self._purge(queue))

    def delete(self, queue: str) -> None:
        """Delete the queue with all it holds (seam)."""
        self.call("delete", lambda: self.script.broker.delete(queue))

    def _look(self, queue: str) -> QueueLook | None:
        ready = self._depth(queue)
        if ready is None:
            return None
        script = self.script
        return QueueLook(
            ready=ready,
            consumers=script.consumers.get(queue, 0),
            hidden=script.hidden.get(queue, 0),
        )

    def _depth(self, queue: str) -> int | None:
        found = self.script.broker.queues.get(queue)
        return None if found is None else len(found.ready)

    def _declare(self, queue: str) -> bool:
        missing = queue not in self.script.broker.queues
        self.script.broker.declare(queue)
        return missing

    def _declare_staging(self, queue: str) -> None:
        broker = self.script.broker
        broker.declare(queue, single_active=True)
        if broker.queues[queue].single_active:
            return
        if broker.holds(queue):
            raise StagingQueueUnusable(f"{queue!r} has other arguments and is not empty")
        broker.delete(queue)
        broker.declare(queue, single_active=True)

    def _purge(self, queue: str) -> int:
        found = self.script.broker.queues.get(queue)
        dropped = len(found.ready) if found else 0
        if found:
            found.ready.clear()
        return dropped
