"""Ingestion that stands still until the broker has given its messages to another process.

A thread that waits stands for a frozen process: the broker hears as little of it. What real ones
do is in the journeys.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import pytest

from retrier.clock import SystemClock
from retrier.domain.failed_message import Failure
from retrier.domain.wire import Confirmed, Delivery, Outgoing
from retrier.events.event import Event
from retrier.events.ingestion import BatchReceived
from retrier.ingestion.ingestor import Ingestor
from retrier.ingestion.parsing import QueueMapping
from retrier.transport.rabbitmq import RabbitMQTransport
from retrier.transport.rabbitmq.consumer import RabbitMQConsumer
from tests.support.far_side import FarSide
from tests.support.ingestion_bench import ScriptedStore
from tests.support.raw_messages import raw_properties, retrier_headers
from tests.support.waiting import wait_until

pytestmark = pytest.mark.rabbitmq

HEARTBEAT = 1
"""Seconds; the broker gives a silent consumer up after two to three of them."""
PREFETCH = 30
COUNT = 150
LONG = 60.0


@dataclass(slots=True)
class Halt:
    """Where a thread stops, the n-th time that it comes there, until it is told to go on."""

    place: str
    time: int = 1
    reached: threading.Event = field(default_factory=threading.Event)
    go_on: threading.Event = field(default_factory=threading.Event)

    def pass_by(self, place: str) -> None:
        """Come to a place."""
        if place == self.place:
            self.time -= 1
            if self.time == 0:
                self.reached.set()
                assert self.go_on.wait(LONG)


class HaltingConsumer(RabbitMQConsumer):
    """A consumer that may stop just after it has written an acknowledgement."""

    halt: Halt

    def ack(self, deliveries: Sequence[Delivery]) -> None:
        super().ack(deliveries)
        self.halt.pass_by("acknowledging")


class HaltingTransport(RabbitMQTransport):
    """A transport that may stop just after it has begun to consume."""

    halt: Halt

    def consumer(self, queue: str, prefetch: int) -> RabbitMQConsumer:
        consumer = HaltingConsumer(self._dial("consumer"), queue, prefetch)
        consumer.halt = self.halt
        self.halt.pass_by("opening")
        return consumer


class Process:
    """One that ingests a queue, with connections of its own."""

    def __init__(self, url: str, queue: str, halt: Halt) -> None:
        self.halt = halt
        self.store = ScriptedStore()
        self.stop = threading.Event()
        transport = HaltingTransport(url, connection_name="frozen", heartbeat=HEARTBEAT)
        transport.halt = halt
        self.ingestor = Ingestor(
            mapping=QueueMapping(queue=queue),
            transport=transport,
            record=self.store.record,
            probe=self.store.probe,
            clock=SystemClock(),
            emit=self.be_told,
            prefetch=PREFETCH,
        )
        self.thread = threading.Thread(target=self.ingestor.run, args=[self.stop])
        self.thread.start()

    def be_told(self, event: Event) -> None:
        """Stop when a batch is in hand, if that is the place."""
        if isinstance(event, BatchReceived):
            self.halt.pass_by("holding")

    def end(self) -> None:
        """Stop as SIGTERM does."""
        self.halt.go_on.set()
        self.stop.set()
        self.thread.join(LONG)
        assert not self.thread.is_alive()

    def stored(self) -> list[bytes]:
        """Return the bodies that were stored, in the order of storing."""
        return [each.body for batch in self.store.batches for each in batch if is_failure(each)]


def is_failure(item: object) -> bool:
    return isinstance(item, Failure)


Start = Callable[..., Process]


@pytest.fixture
def queue(queue_name: Callable[..., str], far_side: FarSide) -> str:
    return far_side.declare(queue_name("error"), x_queue_type="quorum")


@pytest.fixture
def start(amqp_url: str, queue: str) -> Iterator[Start]:
    started: list[Process] = []

    def begin(place: str = "nowhere", time: int = 1) -> Process:
        started.append(Process(amqp_url, queue, Halt(place, time)))
        return started[-1]

    yield begin
    for each in started:
        each.end()


@pytest.fixture
def fail(amqp_url: str, queue: str) -> Iterator[Callable[[Sequence[bytes]], None]]:
    publisher = RabbitMQTransport(amqp_url, connection_name="fails").publisher()
    message = partial(Outgoing, queue=queue, raw=raw_properties(retrier_headers(), delivery_mode=2))

    def let_fail(bodies: Sequence[bytes]) -> None:
        outcomes = publisher.publish([message(body=each) for each in bodies], lambda: None)
        assert set(outcomes) == {Confirmed()}

    yield let_fail
    publisher.close()


@pytest.mark.parametrize(
    ("place", "time"),
    [
        # One batch is being stored, the next one is parsed, and more lie in the socket.
        pytest.param("holding", 8, id="with batches in hand"),
        pytest.param("acknowledging", 8, id="while it acknowledges"),
        pytest.param("opening", 1, id="while it begins to consume"),
    ],
)
def test_what_another_process_has_got_is_not_stored_by_one_that_stood_still(
    start: Start, fail: Callable[[Sequence[bytes]], None], place: str, time: int
) -> None:
    bodies = [b"%d" % each for each in range(COUNT)]
    fail(bodies)
    frozen = start(place, time)
    wait_until(frozen.halt.reached.is_set, LONG, "it stands still")
    before = frozen.stored()
    other = start()
    wait_until(lambda: {*before, *other.stored()} == {*bodies}, LONG, "the other one gets all")
    other.end()

    frozen.halt.go_on.set()
    fail([b"later"])
    wait_until(lambda: b"later" in frozen.stored(), LONG, "it goes on")

    assert frozen.stored() == [*before, b"later"]
