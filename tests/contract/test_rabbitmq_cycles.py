"""RabbitMQ drops what it takes for a cycle: a message that dies its way to where it died before."""

from collections.abc import Callable
from dataclasses import dataclass

import pika
import pytest

from retrier.domain.dialects import DIALECTS
from retrier.domain.wire import Confirmed, Delivery, Outgoing
from retrier.transport.rabbitmq import RabbitMQTransport
from tests.contract.transport_fixtures import nothing
from tests.support.copies import copy_of, retry_of
from tests.support.far_side import FarSide
from tests.support.receiving import receive
from tests.support.waiting import wait_until

pytestmark = pytest.mark.rabbitmq

FAILED = {"NServiceBus.FailedQ": "orders", "Retrier.FailedQueue": "orders"}


@pytest.fixture
def transport(amqp_url: str) -> RabbitMQTransport:
    return RabbitMQTransport(amqp_url, connection_name="cycles")


@dataclass(frozen=True, slots=True)
class Queues:
    """What dies on the error queue goes to orders, what dies on the slow queue to the error queue."""

    orders: str
    error: str
    slow: str


@pytest.fixture
def queues(far_side: FarSide, queue_name: Callable[..., str]) -> Queues:
    orders, error, slow = (queue_name(each) for each in ("orders", "error", "slow"))
    far_side.declare(orders)
    far_side.declare(error, x_dead_letter_exchange="", x_dead_letter_routing_key=orders)
    # Nobody consumes it, so that everything expires at once.
    far_side.declare(
        slow, x_dead_letter_exchange="", x_dead_letter_routing_key=error, x_message_ttl=0
    )
    return Queues(orders, error, slow)


def expire(far_side: FarSide, queue: str, body: bytes) -> None:
    """Let a message die in a queue."""
    properties = pika.BasicProperties(message_id="1", expiration="0")
    far_side.channel.basic_publish("", queue, body, properties)


def fail(far_side: FarSide, queues: Queues) -> None:
    """Give a message up, as middleware does that keeps all headers it does not write itself."""
    wait_until(lambda: far_side.count(queues.orders) == 1, 10)
    _, properties, body = far_side.channel.basic_get(queues.orders, auto_ack=True)
    assert properties.headers["x-death"][0]["queue"] == queues.error
    properties.headers |= FAILED
    far_side.channel.basic_publish("", queues.error, body, properties)


def take(transport: RabbitMQTransport, queue: str) -> Delivery:
    consumer = transport.consumer(queue, 1)
    (delivery,) = receive(consumer, 1)
    consumer.ack([delivery])
    consumer.close()
    return delivery


def retry(transport: RabbitMQTransport, failed: Delivery, dialect: str, to: str) -> None:
    """Send the message as a retry does."""
    copy = copy_of(transport.codec, destination=to)
    raw = retry_of(transport.codec, failed.raw, dialect=dialect, copy=copy)
    publisher = transport.publisher()
    sent = publisher.publish([Outgoing(queue=to, raw=raw, body=failed.body)], nothing)
    publisher.close()
    assert sent == (Confirmed(),)


@pytest.mark.parametrize("dialect", [each.name for each in DIALECTS])
def test_a_retry_that_expires_comes_back_to_the_error_queue_on_which_it_died_once(
    transport: RabbitMQTransport, far_side: FarSide, queues: Queues, dialect: str
) -> None:
    # Given a message that has expired off the error queue, and is then given up by a consumer
    expire(far_side, queues.error, b"an order")
    fail(far_side, queues)
    failed = take(transport, queues.error)

    # When its retry finds nobody who takes it in time
    retry(transport, failed, dialect, queues.slow)

    # Then it lies on the error queue again
    wait_until(lambda: far_side.count(queues.error) == 1, 10, "the message is gone")
    assert take(transport, queues.error).body == b"an order"
