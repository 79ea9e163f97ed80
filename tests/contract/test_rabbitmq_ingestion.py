"""Ingestion from real queues: in the order of the queue, and nothing is handed out twice."""

import threading
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from retrier.clock import SystemClock
from retrier.domain.failed_message import Failure
from retrier.domain.wire import Confirmed, Delivery, Outgoing
from retrier.events.event import ignore
from retrier.ingestion.ingestor import Ingestor
from retrier.ingestion.parsing import QueueMapping
from retrier.transport.rabbitmq import RabbitMQTransport
from tests.support.far_side import FarSide
from tests.support.ingestion_bench import ScriptedStore
from tests.support.raw_messages import raw_properties, retrier_headers
from tests.support.waiting import wait_until

pytestmark = pytest.mark.rabbitmq

LONG = 60.0
on_each_kind = pytest.mark.parametrize("kind", ["quorum", "classic"])


class Intake:
    """One error queue, and the services that ingest it, one after the other."""

    def __init__(self, url: str, queue: str) -> None:
        self.queue = queue
        self.transport = RabbitMQTransport(url, connection_name="order")
        self.store = ScriptedStore()
        self.stop = threading.Event()
        self.publisher = self.transport.publisher()

    def fail(self, numbers: range) -> None:
        """Let messages with these bodies fail, in this order."""
        raw = raw_properties(retrier_headers(), delivery_mode=2)
        outgoing = [Outgoing(queue=self.queue, raw=raw, body=b"%d" % each) for each in numbers]
        outcomes = self.publisher.publish(outgoing, lambda: None)
        assert set(outcomes) == {Confirmed()}

    def start(self) -> None:
        """Start a service."""
        self.stop = threading.Event()
        ingestor = Ingestor(
            mapping=QueueMapping(queue=self.queue),
            transport=self.transport,
            record=self.store.record,
            probe=self.store.probe,
            clock=SystemClock(),
            emit=ignore,
        )
        self.ingestor = ingestor
        self.thread = threading.Thread(target=ingestor.run, args=[self.stop])
        self.thread.start()

    def end(self) -> None:
        """Stop the service as SIGTERM does."""
        self.stop.set()
        self.thread.join(LONG)
        assert not self.thread.is_alive()

    def stored(self) -> list[Failure]:
        """Return what was stored, in the order of storing."""
        return [each for batch in self.store.batches for each in batch if isinstance(each, Failure)]

    def await_stored(self, count: int) -> None:
        """Wait until so many are stored."""
        wait_until(lambda: len(self.stored()) >= count, LONG)

    def close(self) -> None:
        """Let go of everything."""
        self.stop.set()
        self.publisher.close()


Make = Callable[..., Intake]


@pytest.fixture
def make(amqp_url: str, queue_name: Callable[..., str], far_side: FarSide) -> Iterator[Make]:
    made: list[Intake] = []

    def intake(kind: str, **arguments: object) -> Intake:
        queue = far_side.declare(queue_name("error"), x_queue_type=kind, **arguments)
        made.append(Intake(amqp_url, queue))
        return made[-1]

    yield intake
    for each in made:
        each.close()


def numbers(stored: list[Failure]) -> list[int]:
    return [int(each.body) for each in stored]


@on_each_kind
def test_a_backlog_is_stored_in_the_order_of_the_queue(make: Make, kind: str) -> None:
    intake = make(kind)
    intake.fail(range(40))

    intake.start()
    intake.await_stored(40)
    intake.end()

    assert numbers(intake.stored()) == list(range(40))


@on_each_kind
def test_a_burst_after_idling_is_stored_in_the_order_of_the_queue(make: Make, kind: str) -> None:
    intake = make(kind)
    intake.start()
    wait_until(lambda: intake.ingestor.state.consuming, LONG)

    intake.fail(range(40))
    intake.await_stored(40)
    intake.end()

    assert numbers(intake.stored()) == list(range(40))


def test_a_start_gives_nothing_back_to_a_queue_that_drops_what_comes_back(make: Make) -> None:
    intake = make("quorum", x_delivery_limit=0)
    intake.fail(range(2000))

    intake.start()
    intake.await_stored(2000)
    intake.end()

    assert numbers(intake.stored()) == list(range(2000))
    assert not any(each.redelivered for each in intake.stored())


def test_a_stop_loses_nothing_of_a_queue_that_drops_what_comes_back_twice(make: Make) -> None:
    # Given a service that was stopped while more than its window lay on the queue
    intake = make("quorum", x_delivery_limit=1)
    intake.fail(range(2000))
    intake.start()
    intake.await_stored(150)
    intake.end()

    intake.start()
    intake.await_stored(2000)
    intake.end()

    assert sorted(set(numbers(intake.stored()))) == list(range(2000))


def test_a_stop_stores_what_was_handed_over(make: Make) -> None:
    # Given a service that has its next batches in hand
    intake = make("classic")
    intake.fail(range(500))
    intake.start()
    intake.await_stored(100)
    intake.end()

    intake.start()
    intake.await_stored(500)
    intake.end()

    assert numbers(intake.stored()) == list(range(500))
    assert not any(each.redelivered for each in intake.stored())


def test_the_key_of_a_dead_letter_exchange_is_read_with_the_delivery(
    amqp_url: str, queue_name: Callable[..., str], far_side: FarSide
) -> None:
    # As Spring Cloud Stream binds a dead-letter queue of any name: by the name of the work queue.
    queue, exchange = far_side.declare(queue_name("parked")), queue_name("DLX")
    far_side.channel.exchange_declare(exchange, auto_delete=True)
    far_side.channel.queue_bind(queue, exchange, routing_key="orders.packing")
    far_side.channel.basic_publish(exchange, "orders.packing", b"by the exchange")
    far_side.publish(queue)
    transport = RabbitMQTransport(amqp_url, connection_name="keys")

    with closing(transport.consumer(queue, prefetch=2)) as consumer:
        taken: list[Delivery] = []

        def are_taken() -> bool:
            taken.extend(consumer.receive(2, 0.1))
            return len(taken) == 2

        wait_until(are_taken, LONG)

    assert [each.routing_key for each in taken] == ["orders.packing", ""]
