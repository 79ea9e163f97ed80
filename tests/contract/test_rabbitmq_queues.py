"""What RabbitMQ's queues are declared as, and when they are left alone."""

from collections.abc import Callable, Iterator

import pika.exceptions
import pytest

from retrier.app.queue_looks import QueueLooks, WholeNames
from retrier.clock import SystemClock
from retrier.errors import BrokerUnavailable, StagingQueueUnusable
from retrier.http.parts import MissingQueues
from retrier.transport.rabbitmq import RabbitMQTransport
from retrier.transport.rabbitmq.queues import NO_PRIORITY, RabbitMQQueues
from retrier.transport.seam import DeliveryLimit, QueueKind
from tests.support.far_side import FarSide
from tests.support.rabbitmq_habits import RabbitMQHabits
from tests.support.waiting import wait_until

pytestmark = pytest.mark.rabbitmq

Connect = Callable[[QueueKind], RabbitMQQueues]
SAC = {"x_single_active_consumer": True}
QUORUM: dict[str, object] = {"x_queue_type": "quorum"}
DEAD_LETTERING = {"x_dead_letter_exchange": "it's dead", "x_dead_letter_routing_key": "error"}
BOUNDED = {"x_max_length": 7, "x_message_ttl": 60_000, "x_overflow": "reject-publish"}


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


@pytest.mark.parametrize("staging", ["classic", "quorum"])
def test_an_error_queue_is_declared_durable_and_without_arguments(
    connect: Connect, far_side: FarSide, name: str, staging: QueueKind
) -> None:
    connect(staging).declare_error_queue(name)

    assert far_side.declares_alike(name)


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

    with pytest.raises(StagingQueueUnusable, match="0 messages ready, 1 consumer\\."):
        connect("quorum").declare_staging_queue(name)

    assert far_side.declares_alike(name)


def test_our_staging_queue_of_before_an_upgrade_of_the_broker_serves_while_it_holds_copies(
    connect: Connect, far_side: FarSide, name: str
) -> None:
    far_side.declare(name, **QUORUM, **SAC)
    far_side.publish(name, 2)

    connect("quorum").declare_staging_queue(name)

    assert far_side.count(name) == 2


def test_our_staging_queue_of_before_an_upgrade_of_the_broker_serves_while_it_has_a_consumer(
    connect: Connect, far_side: FarSide, name: str
) -> None:
    far_side.declare(name, **QUORUM, **SAC)
    far_side.consume(name)

    connect("quorum").declare_staging_queue(name)

    assert far_side.declares_alike(name, **QUORUM, **SAC)


def test_our_staging_queue_of_before_an_upgrade_of_the_broker_loses_its_limit_once_it_is_empty(
    connect: Connect, far_side: FarSide, name: str, delivery_limit: dict[str, int]
) -> None:
    far_side.declare(name, **QUORUM, **SAC)
    queues = connect("quorum")

    queues.declare_staging_queue(name)

    assert far_side.declares_alike(name, **QUORUM, **SAC, **delivery_limit)


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
def delivery_limit(habits: RabbitMQHabits) -> dict[str, int]:
    return {"x_delivery_limit": -1} if habits.limits_deliveries_unasked else {}


@pytest.mark.parametrize(
    ("arguments", "limit"),
    [
        ({**QUORUM, "x_delivery_limit": 20}, DeliveryLimit(most=20)),
        ({**QUORUM, "x_delivery_limit": 0}, DeliveryLimit(most=0)),
        (
            {**QUORUM, **DEAD_LETTERING, **BOUNDED, **SAC, "x_delivery_limit": 5},
            DeliveryLimit(most=5),
        ),
        ({"x_queue_type": "classic"}, None),
        ({"x_queue_type": "classic", "x_max_length": 7}, None),
        ({"x_queue_type": "classic", **DEAD_LETTERING, **BOUNDED}, None),
        ({"durable": False}, None),
    ],
)
def test_a_delivery_limit_is_seen(
    connect: Connect,
    far_side: FarSide,
    name: str,
    arguments: dict[str, object],
    limit: DeliveryLimit | None,
) -> None:
    far_side.declare(name, **arguments)

    assert connect("quorum").delivery_limit(name) == limit


@pytest.mark.parametrize(
    "arguments",
    [{}, {"x_max_length": 7}, {**DEAD_LETTERING, **BOUNDED, **SAC}],
    ids=["bare", "bounded", "with all others"],
)
def test_a_quorum_queue_without_a_limit_of_its_own_has_one_where_the_broker_gives_it_one(
    connect: Connect,
    far_side: FarSide,
    habits: RabbitMQHabits,
    name: str,
    arguments: dict[str, object],
) -> None:
    far_side.declare(name, **QUORUM, **arguments)

    limit = connect("quorum").delivery_limit(name)

    assert limit == (DeliveryLimit(most=20) if habits.limits_deliveries_unasked else None)


def test_a_limit_that_the_cut_off_words_of_the_broker_do_not_tell_is_the_one_it_gives_unasked(
    connect: Connect, far_side: FarSide, habits: RabbitMQHabits, queue_name: Callable[..., str]
) -> None:
    name = far_side.declare(queue_name("long" * 50), **QUORUM, **DEAD_LETTERING)

    limit = connect("quorum").delivery_limit(name)

    # Its number is not seen: one that is set would look the same.
    assert limit == (DeliveryLimit(most=None) if habits.limits_deliveries_unasked else None)


@pytest.mark.parametrize("arguments", [{}, {**DEAD_LETTERING, **BOUNDED}], ids=["bare", "others"])
def test_a_limit_of_minus_one_is_none_where_the_broker_gives_one_unasked(
    connect: Connect,
    far_side: FarSide,
    habits: RabbitMQHabits,
    name: str,
    arguments: dict[str, object],
) -> None:
    far_side.declare(name, **QUORUM, **arguments, x_delivery_limit=-1)

    limit = connect("quorum").delivery_limit(name)

    assert limit == (None if habits.limits_deliveries_unasked else DeliveryLimit(most=-1))


def test_the_queue_of_our_own_making_has_no_delivery_limit(connect: Connect, name: str) -> None:
    queues = connect("quorum")
    queues.declare_error_queue(name)

    assert queues.delivery_limit(name) is None


def test_a_missing_queue_has_no_delivery_limit_and_stays_missing(
    connect: Connect, name: str
) -> None:
    queues = connect("quorum")

    assert queues.delivery_limit(name) is None
    assert queues.depth(name) is None


def test_a_stream_is_no_error_queue(connect: Connect, far_side: FarSide, name: str) -> None:
    far_side.declare(name, x_queue_type="stream", x_max_length_bytes=1_000_000)

    reason = connect("quorum").why_not_ingestible(name)

    assert reason is not None
    assert reason.startswith("it is a stream")


@pytest.mark.parametrize("arguments", [{"x_queue_type": "quorum"}, {"x_queue_type": "classic"}, {}])
def test_any_other_queue_may_be_an_error_queue_and_delivers_nothing_to_find_out(
    connect: Connect, far_side: FarSide, name: str, arguments: dict[str, str]
) -> None:
    far_side.declare(name, **arguments)
    far_side.publish(name)
    wait_until(lambda: far_side.count(name) == 1, 10)

    assert connect("quorum").why_not_ingestible(name) is None

    _, properties, _ = far_side.channel.basic_get(name)
    assert (properties.headers or {}).get("x-delivery-count", 0) == 0


def test_a_missing_queue_is_not_made_to_find_out_its_type(connect: Connect, name: str) -> None:
    queues = connect("quorum")

    assert queues.why_not_ingestible(name) is None

    assert queues.depth(name) is None


@pytest.mark.parametrize("kind", ["quorum", "classic"])
def test_what_tells_a_type_is_refused_by_every_queue(
    far_side: FarSide, name: str, kind: str
) -> None:
    far_side.declare(name, x_queue_type=kind)

    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="x-priority"):
        far_side.channel.basic_consume(name, lambda *_: None, arguments=NO_PRIORITY)


@pytest.mark.parametrize("kind", ["quorum", "classic"])
def test_the_staging_queue_loses_nothing_that_is_on_its_way_when_its_consumer_rests(
    connect: Connect, far_side: FarSide, amqp_url: str, name: str, kind: QueueKind
) -> None:
    connect(kind).declare_staging_queue(name)
    far_side.publish(name, 50)
    transport = RabbitMQTransport(amqp_url, staging_queue_type=kind, connection_name="rests")

    # When that happens more often than the limit of 20 that RabbitMQ 4 sets by itself
    for _ in range(25):
        consumer = transport.consumer(name, 100)
        consumer.rest()
        consumer.close()

    consumer, found = transport.consumer(name, 100), set[bytes]()

    def has_all() -> bool:
        found.update(bytes(each.body) for each in consumer.receive(100, 0.1))
        return len(found) == 50

    wait_until(has_all, 30)
    consumer.close()


def test_a_queue_that_another_connection_has_to_itself_exists(
    connect: Connect, far_side: FarSide, name: str
) -> None:
    far_side.channel.queue_declare(name, exclusive=True)

    assert connect("quorum").exists(name)

    far_side.close()  # or nobody could delete it


def test_after_a_locked_queue_the_others_are_looked_at(
    amqp_url: str, far_side: FarSide, name: str
) -> None:
    far_side.channel.queue_declare(name, exclusive=True)
    transport = RabbitMQTransport(amqp_url, staging_queue_type="classic", connection_name="looks")

    # It has longer than a person waits: the machine may be slow.
    found = QueueLooks(transport, SystemClock(), 30).look_at([name, f"{name}.gone"])

    assert found == MissingQueues(missing=frozenset({f"{name}.gone"}))

    far_side.close()  # or nobody could delete it


def test_a_queue_with_an_at_sign_is_known_by_its_whole_name(
    amqp_url: str, far_side: FarSide, queue_name: Callable[..., str]
) -> None:
    name = far_side.declare(queue_name("billing@eu"))
    transport = RabbitMQTransport(amqp_url, staging_queue_type="classic", connection_name="names")
    names = WholeNames(QueueLooks(transport, SystemClock(), 30).look_at, SystemClock())

    assert names.exists(name)
    assert not names.exists(f"{name}.gone")
