"""What RabbitMQ's queues are declared as, and when they are left alone."""

from collections.abc import Callable, Iterator

import pytest

from retrier.errors import BrokerUnavailable, StagingQueueUnusable
from retrier.transport.rabbitmq import RabbitMQTransport
from retrier.transport.rabbitmq.queues import RabbitMQQueues
from retrier.transport.seam import QueueKind
from tests.support.far_side import FarSide

pytestmark = pytest.mark.rabbitmq

Connect = Callable[[QueueKind], RabbitMQQueues]
SAC = {"x_single_active_consumer": True}


@pytest.fixture
def connect(amqp_url: str) -> Iterator[Connect]:
    opened: list[RabbitMQQueues] = []

    def make(kind: QueueKind) -> RabbitMQQueues:
        transport = RabbitMQTransport(amqp_url, staging_queue_type=kind, connection_name="queues")
        opened.append(transport.queues())
        return opened[-1]

    yield make
    for queues in opened:
        queues.close()


@pytest.fixture
def name(queue_name: Callable[..., str]) -> str:
    return queue_name("declared")


def test_an_error_queue_is_declared_durable_and_quorum(
    connect: Connect, far_side: FarSide, name: str, delivery_limit: dict[str, int]
) -> None:
    connect("classic").declare_error_queue(name)

    assert far_side.declares_alike(name, x_queue_type="quorum", **delivery_limit)


@pytest.mark.parametrize("durable", [True, False])
def test_an_error_queue_of_other_making_stays_as_it_is(
    connect: Connect, far_side: FarSide, name: str, *, durable: bool
) -> None:
    far_side.declare(name, durable=durable, x_max_length=7)

    assert connect("quorum").declare_error_queue(name) is False

    assert far_side.declares_alike(name, durable=durable, x_max_length=7)


def test_a_classic_staging_queue_has_a_single_active_consumer(
    connect: Connect, far_side: FarSide, name: str
) -> None:
    connect("classic").declare_staging_queue(name)

    assert far_side.declares_alike(name, x_queue_type="classic", **SAC)


def test_a_quorum_staging_queue_has_a_single_active_consumer(
    connect: Connect, far_side: FarSide, name: str, delivery_limit: dict[str, int]
) -> None:
    connect("quorum").declare_staging_queue(name)

    assert far_side.declares_alike(name, x_queue_type="quorum", **SAC, **delivery_limit)


FOREIGN = {
    "classic": {"x_queue_type": "classic"},
    "quorum": {"x_queue_type": "quorum"},
    "not durable": {"durable": False},
    "limited": {"x_queue_type": "classic", "x_max_length": 7, **SAC},
}


@pytest.mark.parametrize("foreign", FOREIGN.values(), ids=FOREIGN.keys())
@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_a_foreign_staging_queue_that_is_empty_is_declared_anew(
    connect: Connect, far_side: FarSide, name: str, foreign: dict[str, object], kind: QueueKind
) -> None:
    far_side.declare(name, **foreign)
    queues = connect(kind)

    queues.declare_staging_queue(name)

    assert not far_side.declares_alike(name, **foreign)
    queues.declare_staging_queue(name)


@pytest.mark.parametrize("foreign", FOREIGN.values(), ids=FOREIGN.keys())
def test_a_foreign_staging_queue_that_holds_messages_is_left_alone(
    connect: Connect, far_side: FarSide, name: str, foreign: dict[str, object]
) -> None:
    far_side.declare(name, **foreign)
    far_side.publish(name, 2)

    with pytest.raises(StagingQueueUnusable, match=f"{name}.*2 messages.*another name"):
        connect("quorum").declare_staging_queue(name)

    assert far_side.count(name) == 2


STREAMS = {
    "a stream": {"x_queue_type": "stream"},
    "with a limit": {"x_queue_type": "stream", "x_max_length_bytes": 1_000_000},
}


@pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS.keys())
@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_a_stream_of_that_name_is_left_alone_though_it_says_that_it_is_empty(
    connect: Connect, far_side: FarSide, name: str, stream: dict[str, object], kind: QueueKind
) -> None:
    far_side.declare(name, **stream)
    far_side.publish(name, 2)

    with pytest.raises(StagingQueueUnusable, match=f"{name}.*stream.*another name"):
        connect(kind).declare_staging_queue(name)

    assert far_side.declares_alike(name, **stream)


def test_a_foreign_staging_queue_that_has_consumers_is_left_alone(
    connect: Connect, far_side: FarSide, name: str
) -> None:
    far_side.declare(name)
    far_side.consume(name)

    with pytest.raises(StagingQueueUnusable, match="1 consumers"):
        connect("quorum").declare_staging_queue(name)

    assert far_side.declares_alike(name)


def test_a_staging_queue_of_another_connection_alone_cannot_be_used(
    connect: Connect, far_side: FarSide, name: str
) -> None:
    far_side.channel.queue_declare(name, exclusive=True)

    with pytest.raises(StagingQueueUnusable, match="another name"):
        connect("quorum").declare_staging_queue(name)

    far_side.close()  # or nobody could delete it


def test_a_queue_that_may_not_be_looked_at_is_not_called_missing(
    connect: Connect, far_side: FarSide, name: str
) -> None:
    far_side.channel.queue_declare(name, exclusive=True)
    queues = connect("quorum")

    with pytest.raises(BrokerUnavailable, match="405 RESOURCE_LOCKED"):
        queues.depth(name)

    far_side.close()  # or nobody could delete it


@pytest.fixture
def delivery_limit(far_side: FarSide) -> dict[str, int]:
    return {"x_delivery_limit": -1} if far_side.version >= (4, 0) else {}


@pytest.mark.parametrize(
    ("arguments", "limited"),
    [
        ({"x_queue_type": "quorum", "x_delivery_limit": 20}, True),
        ({"x_queue_type": "classic"}, False),
        ({"x_queue_type": "classic", "x_max_length": 7}, False),
    ],
)
def test_a_delivery_limit_is_seen(
    connect: Connect, far_side: FarSide, name: str, arguments: dict[str, object], *, limited: bool
) -> None:
    far_side.declare(name, **arguments)

    assert connect("quorum").may_limit_deliveries(name) is limited


def test_the_queue_of_our_own_making_has_no_delivery_limit(connect: Connect, name: str) -> None:
    queues = connect("quorum")
    queues.declare_error_queue(name)

    assert queues.may_limit_deliveries(name) is False


def test_a_missing_queue_has_no_delivery_limit_and_stays_missing(
    connect: Connect, name: str
) -> None:
    queues = connect("quorum")

    assert queues.may_limit_deliveries(name) is False
    assert queues.depth(name) is None
