"""What RabbitMQ's consumers and other clients see of a message that went through the transport."""

from collections.abc import Callable, Iterator

import pika
import pytest

from retrier.domain.copies import read_staged
from retrier.domain.wire import Delivery, Edit, Outgoing
from retrier.transport.rabbitmq import RabbitMQTransport
from retrier.transport.rabbitmq.properties import AmqpPropertyCodec, entries
from tests.contract.rabbitmq_samples import SAMPLES
from tests.contract.transport_fixtures import nothing
from tests.support.amqp_bytes import FIELDS, NO_PROPERTIES, array, header, properties, string
from tests.support.copies import copy_of, retry_of
from tests.support.far_side import FarSide
from tests.support.rabbitmq_habits import RabbitMQHabits
from tests.support.receiving import bodies, receive

pytestmark = pytest.mark.rabbitmq

CODEC = AmqpPropertyCodec()


@pytest.fixture
def transport(amqp_url: str) -> RabbitMQTransport:
    return RabbitMQTransport(amqp_url, connection_name="bytes")


@pytest.fixture
def quorum_queue(far_side: FarSide, queue_name: Callable[..., str]) -> str:
    return far_side.declare(queue_name("quorum"), x_queue_type="quorum")


@pytest.fixture(params=["classic_queue", "quorum_queue"])
def queue(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(request.param))


Publish = Callable[[str, bytes, bytes], None]
Take = Callable[[str], Delivery]


@pytest.fixture
def publish(transport: RabbitMQTransport) -> Iterator[Publish]:
    publisher = transport.publisher()
    yield lambda queue, raw, body: [
        publisher.publish([Outgoing(queue=queue, raw=raw, body=body)], nothing)
    ]
    publisher.close()


@pytest.fixture
def take(transport: RabbitMQTransport) -> Take:
    def receive_one(queue: str) -> Delivery:
        consumer = transport.consumer(queue, 1)
        (delivery,) = receive(consumer, 1)
        consumer.close()
        return delivery

    return receive_one


def headers_of(raw: bytes) -> list[bytes]:
    """Return the bytes of each header, whatever their order in the table."""
    table = CODEC.edit(raw, Edit(drop_fields=frozenset(FIELDS) - {"headers"}))[6:]
    return sorted(entries(table))


CLIENTS_OWN = pika.BasicProperties(
    content_type="application/json",
    content_encoding="utf-16",
    headers={"text": "grüße", "nested": {"list": [1, None, {"deep": True}]}, "compression": "gzip"},
    delivery_mode=2,
    priority=255,
    correlation_id="c-1",
    expiration="600000",
    timestamp=1_700_000_000_000,
)


def test_keeps_the_bytes_another_client_wrote(
    far_side: FarSide, habits: RabbitMQHabits, take: Take, classic_queue: str
) -> None:
    body = "größe".encode("utf-16")
    far_side.channel.basic_publish("", classic_queue, body, CLIENTS_OWN)

    delivery = take(classic_queue)

    assert delivery.raw == habits.hands_out(b"".join(CLIENTS_OWN.encode()))
    assert delivery.body == body


def test_another_client_reads_what_it_once_wrote(
    far_side: FarSide, publish: Publish, classic_queue: str
) -> None:
    publish(classic_queue, b"".join(CLIENTS_OWN.encode()), b"body")

    _, read, body = far_side.channel.basic_get(classic_queue)

    assert read == CLIENTS_OWN
    assert body == b"body"


@pytest.mark.parametrize(("raw", "body"), SAMPLES.values(), ids=SAMPLES.keys())
def test_a_classic_queue_changes_no_byte_at_a_redelivery(
    habits: RabbitMQHabits,
    publish: Publish,
    take: Take,
    classic_queue: str,
    raw: bytes,
    body: bytes,
) -> None:
    publish(classic_queue, raw, body)

    first, again = take(classic_queue), take(classic_queue)

    assert (first.raw, first.body) == (habits.hands_out(raw), body)
    assert (again.raw, again.body, again.redelivered) == (first.raw, body, True)


@pytest.mark.parametrize(("raw", "body"), SAMPLES.values(), ids=SAMPLES.keys())
def test_a_quorum_queue_adds_its_counter_at_a_redelivery_and_changes_only_the_order_of_headers(
    habits: RabbitMQHabits,
    publish: Publish,
    take: Take,
    quorum_queue: str,
    raw: bytes,
    body: bytes,
) -> None:
    publish(quorum_queue, raw, body)

    first, second = take(quorum_queue), take(quorum_queue)

    counter = header("x-delivery-count", b"l" + (1).to_bytes(8))
    assert first.raw == habits.hands_out(raw)
    assert CODEC.read(second.raw).fields == CODEC.read(raw).fields
    assert headers_of(second.raw) == sorted([*headers_of(first.raw), counter])
    assert (second.body, second.redelivered) == (body, True)


def test_a_copy_to_another_queue_is_the_same_message(
    habits: RabbitMQHabits,
    publish: Publish,
    take: Take,
    far_side: FarSide,
    classic_queue: str,
    queue_name: Callable[..., str],
) -> None:
    other = far_side.declare(queue_name("copy"))
    raw = properties(headers=[header("CC", array(string(other))), header("k", b"V")])

    publish(classic_queue, raw, b"body")

    assert [take(queue).raw for queue in (classic_queue, other)] == [habits.hands_out(raw)] * 2


@pytest.mark.parametrize("size", [0, 1, 131_063, 131_064, 131_065, 300_000])
def test_bodies_around_the_size_of_a_frame_arrive_whole(
    publish: Publish, take: Take, classic_queue: str, size: int
) -> None:
    body = bytes(number % 251 for number in range(size))

    publish(classic_queue, NO_PROPERTIES, body)

    assert take(classic_queue).body == body


@pytest.mark.parametrize("times", [1, 2], ids=["first delivery", "redelivery"])
def test_a_copy_says_the_same_whatever_the_queue_does_to_its_headers(
    publish: Publish, take: Take, queue: str, times: int
) -> None:
    copy = copy_of(CODEC)
    publish(queue, copy, b"")

    taken = [take(queue) for _ in range(times)]

    assert read_staged(CODEC, taken[-1].raw) == read_staged(CODEC, copy)


@pytest.mark.parametrize("raw", [raw for raw, _ in SAMPLES.values()], ids=SAMPLES.keys())
def test_a_retry_is_made_of_the_bytes_that_failed_whatever_became_of_its_copy(
    publish: Publish, take: Take, queue: str, raw: bytes
) -> None:
    copy = copy_of(CODEC)
    publish(queue, copy, b"")

    taken = take(queue)

    assert retry_of(CODEC, raw, copy=taken.raw) == retry_of(CODEC, raw, copy=copy)


def test_copies_are_handed_out_in_the_order_they_were_put_in(
    transport: RabbitMQTransport, publish: Publish, queue: str
) -> None:
    for number in range(5):
        publish(queue, copy_of(CODEC), b"%d" % number)

    consumer = transport.consumer(queue, 10)

    assert bodies(receive(consumer, 5)) == [b"0", b"1", b"2", b"3", b"4"]
    consumer.close()


def test_a_quorum_queue_would_put_copies_with_priorities_in_another_order(
    transport: RabbitMQTransport, habits: RabbitMQHabits, publish: Publish, quorum_queue: str
) -> None:
    for priority in (0, 9):
        publish(quorum_queue, properties(priority=priority), b"%d" % priority)

    consumer = transport.consumer(quorum_queue, 1)

    first = b"9" if habits.orders_quorum_queues_by_priority else b"0"
    assert bodies(receive(consumer, 1)) == [first]
    consumer.close()
