"""Wait loops as applications build them with RabbitMQ: work queue <-> wait queue with a time to live."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import pika
import pytest

from retrier.domain.failed_message import Failure
from retrier.ingestion.parsing import QueueMapping, parse
from retrier.transport.rabbitmq import RabbitMQTransport
from tests.support.far_side import FarSide
from tests.support.receiving import receive
from tests.support.waiting import wait_until

pytestmark = pytest.mark.rabbitmq

WAIT = 50
"""Milliseconds a message spends in the wait queue."""

Loop = Callable[..., "Queues"]


@dataclass(frozen=True, slots=True)
class Queues:
    """What is rejected on work goes to wait; what has waited goes where the loop says."""

    work: str
    wait: str
    error: str


@pytest.fixture(params=["classic", "quorum"])
def declare_loop(
    request: pytest.FixtureRequest, far_side: FarSide, queue_name: Callable[..., str]
) -> Loop:
    def declare(after_wait: str = "work") -> Queues:
        queues = Queues(*(queue_name(each) for each in ("work", "wait", "error")))
        typed = {"x_queue_type": request.param, "x_dead_letter_exchange": ""}
        target = getattr(queues, after_wait)
        far_side.declare(queues.error)
        far_side.declare(queues.work, x_dead_letter_routing_key=queues.wait, **typed)
        far_side.declare(queues.wait, x_dead_letter_routing_key=target, x_message_ttl=WAIT, **typed)
        return queues

    return declare


def send(far_side: FarSide, queue: str) -> None:
    far_side.channel.basic_publish("", queue, b"an order", pika.BasicProperties(message_id="7"))


def take(far_side: FarSide, queue: str) -> tuple[int, pika.BasicProperties]:
    """Take a message off a queue as its consumer does; it is acked or rejected by its tag."""
    wait_until(lambda: far_side.count(queue) == 1, 10, f"no message is on {queue}")
    delivered, properties, _body = far_side.channel.basic_get(queue)
    return int(delivered.delivery_tag), properties


def reject(far_side: FarSide, queue: str) -> None:
    tag, _properties = take(far_side, queue)
    far_side.channel.basic_reject(tag, requeue=False)


def publish_on(far_side: FarSide, source: str, target: str) -> None:
    """Publish a message again with all its headers, and acknowledge it."""
    tag, properties = take(far_side, source)
    far_side.channel.basic_publish("", target, b"an order", properties)
    far_side.channel.basic_ack(tag)


def failure_on(url: str, queue: str, destination: str | None = None) -> Failure:
    """Read the message on an error queue as ingestion reads it."""
    transport = RabbitMQTransport(url, connection_name="wait loops")
    consumer = transport.consumer(queue, 1)
    (delivery,) = receive(consumer, 1)
    consumer.ack([delivery])
    consumer.close()
    mapping = QueueMapping(queue=queue, destination=destination)
    found = parse(delivery, transport.codec, mapping, datetime.now(UTC))  # noqa: TID251 - beside the broker's clock
    assert isinstance(found, Failure), found
    return found


def test_a_message_parked_after_three_loops_failed_on_the_work_queue(
    amqp_url: str, far_side: FarSide, declare_loop: Loop
) -> None:
    # Given a message that was rejected three times, and waited after each
    queues = declare_loop()
    send(far_side, queues.work)
    for _ in range(3):
        reject(far_side, queues.work)

    # When its consumer publishes it to the error queue instead of rejecting it once more
    publish_on(far_side, queues.work, queues.error)

    # Then its failures count, and not the waits, though the newest death is a wait
    details = failure_on(amqp_url, queues.error).details
    assert (details.queue, details.destination) == (queues.work, queues.work)
    assert (details.failure_reason, details.attempts_reported) == ("rejected", 3)
    assert details.exception_message == f"rejected by a consumer on {queues.work}, 3 times"
    assert details.time_of_failure is not None


def test_a_message_that_waits_on_its_way_to_the_error_queue_failed_on_the_work_queue(
    amqp_url: str, far_side: FarSide, declare_loop: Loop
) -> None:
    # Given a wait queue between the work queue and the error queue
    queues = declare_loop(after_wait="error")
    send(far_side, queues.work)

    # When the message is rejected once
    reject(far_side, queues.work)

    # Then a retry goes to the work queue
    assert failure_on(amqp_url, queues.error).details.destination == queues.work


def test_a_loop_without_rejections_shows_the_wait_queue_and_needs_a_destination(
    amqp_url: str, far_side: FarSide, declare_loop: Loop
) -> None:
    # Given a consumer that publishes to the wait queue itself: the work queue is in no death
    queues = declare_loop()
    send(far_side, queues.work)
    publish_on(far_side, queues.work, queues.wait)
    publish_on(far_side, queues.work, queues.wait)

    # When it gives the message up
    publish_on(far_side, queues.work, queues.error)

    # Then only the settings can say where a retry goes
    details = failure_on(amqp_url, queues.error, destination=queues.work).details
    assert (details.queue, details.destination) == (queues.wait, queues.work)
    assert details.failure_reason == "expired"
