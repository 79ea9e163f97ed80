"""The connections of a worker, and when it takes nothing because something is away or fails."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from itertools import groupby
from random import SystemRandom
from threading import Lock, Thread
from time import monotonic
from typing import Protocol, runtime_checkable

from retrier.clock import Clock
from retrier.domain.wire import ChannelClosed, Delivery, Outcome, Outgoing, Refused, Unknown
from retrier.errors import BrokerUnavailable
from retrier.transport.seam import Consumer, Publisher, Transport
from retrier.transport.transports import (
    TRANSPORTS,
    Tls,
    TransportOptions,
    find_scheme,
    make_transport,
)
from retrier.worker.breaker import Circuit, State
from retrier.worker.hand import Held
from retrier.worker.options import Health

OTHERS = "retrier.transport.other_brokers"
"""For every scheme that is none of Retrier's own: what Kombu makes of it."""

KEEP_EVERY = 0.5
"""Seconds between two looks at what has to be done to keep the connections."""

PROBE = 0.1
"""Seconds to wait for what came back after a crash."""

Source = Consumer
Received = tuple[str, Source, Delivery]


@runtime_checkable
class CountingTransport(Protocol):
    """A transport some of whose queues count deliveries."""

    def counts_deliveries(self, queue: str) -> bool:
        """Return whether the queue counts redeliveries in `x-delivery-count`."""
        ...


def find_transport(
    urls: Sequence[str],
    name: str,
    tls: Tls | None = None,
    transport_options: Mapping[str, object] | None = None,
) -> Transport:
    """Return the transport of the first URL's scheme. Raises ConfigurationError.

    `transport_options` are Kombu's, for a broker that only Kombu knows.
    """
    if find_scheme(urls[0]) not in TRANSPORTS:
        made: Transport = import_module(OTHERS).KombuTransport(urls[0], transport_options or {})
        return made
    return make_transport(
        TransportOptions(
            urls=tuple(urls),
            staging_queue_type="quorum",
            connection_name=f"retrier.worker {name}",
            dice=SystemRandom(),
            tls=tls or Tls(),
            kombu=transport_options or {},
        )
    )


def find_missing(transport: Transport, queues: Sequence[str]) -> list[str]:
    """Return which of these queues do not exist. Raises BrokerUnavailable.

    Where using a queue makes it, none is missing: those that are new are made known.
    """
    if not transport.capabilities.existence:
        return []
    looker = transport.queues()
    try:
        missing = [queue for queue in queues if looker.look(queue) is None]
        if transport.capabilities.made_by_use:
            for queue in missing:
                looker.declare_error_queue(queue)
            return []
        return missing
    finally:
        looker.close()


def find_counted(transport: Transport, queues: Sequence[str]) -> frozenset[str]:
    """Return which of these queues count redeliveries themselves. Raises BrokerUnavailable."""
    if not isinstance(transport, CountingTransport):
        return frozenset()
    return frozenset(queue for queue in queues if transport.counts_deliveries(queue))


class Connections:
    """Used by one thread. All that speaks to the broker raises BrokerUnavailable.

    The first error makes it useless: all of it is closed then.

    If more than one message may be in hand, it is `careful` at first: one queue after the other,
    and of each only one message. So what comes back after a crash is handled alone (R43).
    """

    def __init__(self, transport: Transport, queues: Sequence[str], prefetch: int) -> None:
        """Connect."""
        self.counted = find_counted(transport, queues)
        self.careful = prefetch * len(queues) > 1
        self.ceased = False
        """Whether no more is consumed: the line is only good for acks and publishes then."""
        self._transport = transport
        self._prefetch = prefetch
        self._queues = list(queues)
        self._kept = monotonic()
        self._lost: BrokerUnavailable | None = None
        self._consumers: dict[str, Source] = {}
        self._publisher: Publisher = transport.publisher()
        self._open_next()

    def has(self, source: Source) -> bool:
        """Return whether a message of this source can be acknowledged here."""
        return self._lost is None and source in self._consumers.values()

    def lose(self, error: BrokerUnavailable) -> None:
        """Note that a connection broke: whoever uses the line next is told."""
        self._lost = error

    def receive(self, timeout: float) -> list[Received]:
        """Return what has arrived; wait so long for it if there is one queue, else a part of it."""
        if self._lost is not None:
            raise self._lost
        if self.careful:
            queue = self._queues[len(self._consumers) - 1]
            return self._receive_from(queue, 1, PROBE)
        each = timeout / len(self._queues) ** 2
        return [
            received
            for queue in self._queues
            for received in self._receive_from(queue, self._prefetch, each)
        ]

    def calm_down(self) -> list[Received]:
        """Go on with the next queue; after the last one, consume all of them as fast as can be.

        For a queue from which nothing came, or nothing that came back after a crash. Return what
        has arrived meanwhile.
        """
        left = self._cease_one(self._queues[len(self._consumers) - 1])
        if len(self._consumers) < len(self._queues):
            self._open_next()
        else:
            self.careful = False
            for consumer in self._consumers.values():
                consumer.resume(self._prefetch)
        return left

    def cease(self) -> list[Received]:
        """Consume no more; return what has arrived unseen.

        Before the last acks: else the broker would hand out more, and count it when we close.
        """
        self.ceased = True
        queues = self._queues[len(self._consumers) - 1 :] if self.careful else self._queues
        return [received for queue in queues for received in self._cease_one(queue)]

    def await_acks(self) -> None:
        """Return when the broker has read all acks. After `cease`.

        A process that ends right after them may take them along. The answer to a second cancel
        comes after what was sent before it.
        """
        for queue in self._consumers:
            self._cease_one(queue)

    def publish(
        self, messages: Sequence[Outgoing], waiting: Callable[[], None]
    ) -> tuple[Outcome, ...]:
        """Publish, each message confirmed or not taken."""
        if self._lost is not None:
            raise self._lost
        if not messages:
            return ()
        outcomes = self._publisher.publish(messages, waiting)
        if len(messages) > 1 and any(isinstance(each, ChannelClosed) for each in outcomes):
            # One of them made the broker close the channel. By itself each gets its own answer.
            return tuple(self.publish([each], waiting)[0] for each in messages)
        return tuple(map(_settled, outcomes))

    def ack(self, several: Sequence[Held]) -> None:
        """Acknowledge messages of this line."""
        if len(several) == 1:
            several[0].source.ack([several[0].delivery])
            return
        ordered = sorted(several, key=lambda held: id(held.source))
        for _, group in groupby(ordered, key=lambda held: id(held.source)):
            members = list(group)
            members[0].source.ack([held.delivery for held in members])

    def keep_alive(self) -> None:
        """Send heartbeats that are due; most calls do nothing."""
        if monotonic() < self._kept + KEEP_EVERY:
            return
        self._kept = monotonic()
        for consumer in self._consumers.values():
            consumer.keep_alive()
            consumer.receive(0, 0)  # takes nothing, but a connection that broke is found out
        self._publisher.keep_alive()

    def close(self) -> None:
        """Drop the connections: what is not acknowledged goes back to its queue. Never raises."""
        for consumer in self._consumers.values():
            consumer.close()
        self._publisher.close()

    def _open_next(self) -> None:
        queue = self._queues[len(self._consumers)]
        try:
            self._consumers[queue] = self._transport.consumer(
                queue, 1 if self.careful else self._prefetch
            )
        except BrokerUnavailable:
            self.close()
            raise

    def _receive_from(self, queue: str, limit: int, timeout: float) -> list[Received]:
        consumer = self._consumers[queue]
        return [(queue, consumer, each) for each in consumer.receive(limit, timeout)]

    def _cease_one(self, queue: str) -> list[Received]:
        consumer = self._consumers[queue]
        return [(queue, consumer, each) for each in consumer.cease()]


def _settled(outcome: Outcome) -> Outcome:
    match outcome:
        case Unknown(reason):
            raise BrokerUnavailable(reason)
        case ChannelClosed(reason):
            return Refused(reason)
        case _:
            return outcome


LONGEST_PAUSE = 60.0
"""Seconds: a delay is doubled up to this."""


class HealthPause:
    """Over when the health check passes; without one, after a delay that is doubled each time.

    A breaker that is open is a pause as well: `circuit` says when that is over.
    """

    def __init__(
        self, health: Health | None, delay: float, clock: Clock, circuit: Circuit | None = None
    ) -> None:
        """With a health check it begins paused: nothing is taken before it has passed once."""
        self._probe = None if health is None else HealthProbe(health)
        self._clock = clock
        self._circuit = circuit or Circuit(None)
        self._first = delay
        self._delay = delay
        self._next = clock.monotonic()
        self._is_away = health is not None
        self._why_away = "the health check has not passed yet"

    @property
    def active(self) -> bool:
        """Whether nothing is to be taken."""
        return self._is_away or self._circuit.state is State.OPEN

    @property
    def why(self) -> str:
        """Why nothing is taken; what was the reason, if it is."""
        return self._why_away if self._is_away else self._circuit.why or self._why_away

    def begin(self, why: str) -> None:
        """Pause, or stay paused: something is away."""
        if self._is_away:
            return
        self._is_away = True
        self._why_away = why
        self._next = self._clock.monotonic() + self._delay
        if self._probe is None:
            self._delay = min(2 * self._delay, LONGEST_PAUSE)

    def succeed(self) -> None:
        """Note that a message was handled: the next pause is a short one again."""
        self._delay = self._first

    def check(self) -> bool:
        """Return whether it is still paused; look at the health check if that is due."""
        if not self.active:
            return False
        self._circuit.check(self._clock.monotonic())
        if self._is_away:
            self._look()
        return self.active

    def _look(self) -> None:
        now = self._clock.monotonic()
        if self._probe is None:
            self._is_away = now < self._next
            return
        if now >= self._next:
            self._next = now + self._delay
            self._probe.ask()
        answer = self._probe.take_answer()
        if answer is not None:
            self._is_away = answer != ""
            self._why_away = f"the health check fails: {answer}" if answer else self._why_away


class HealthProbe:
    """Asks a health check in a thread of its own: it may hang, and heartbeats have to go on."""

    def __init__(self, health: Health) -> None:
        self._health = health
        self._lock = Lock()
        self._asking = False
        self._answer: str | None = None

    def ask(self) -> None:
        """Ask, unless the last question is not answered yet."""
        with self._lock:
            if self._asking:
                return
            self._asking = True
        Thread(target=self._run, name="health check", daemon=True).start()

    def take_answer(self) -> str | None:
        """Return what was answered since the last call: "" if healthy, else why not; else None."""
        with self._lock:
            answer, self._answer = self._answer, None
        return answer

    def _run(self) -> None:
        try:
            answer = "it says False" if self._health() is False else ""
        except BaseException as error:  # noqa: BLE001 - somebody else's function
            answer = type(error).__name__
        with self._lock:
            self._asking, self._answer = False, answer
