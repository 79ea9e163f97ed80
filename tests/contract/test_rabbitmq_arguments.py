"""What RabbitMQ reveals of a queue's arguments, and that a question changes nothing."""

from collections.abc import Callable, Iterator

import pytest

from retrier.transport.rabbitmq import RabbitMQTransport
from retrier.transport.rabbitmq.queues import (
    RabbitMQQueues,
    find_delivery_limit,
    has_dead_letter_exchange,
)
from tests.support.far_side import FarSide

pytestmark = pytest.mark.rabbitmq

DEAD_LETTERING = {"x_dead_letter_exchange": "it's dead", "x_dead_letter_routing_key": "error"}
BOUNDED = {"x_max_length": 7, "x_message_ttl": 60_000, "x_expires": 600_000}


@pytest.fixture
def queues(amqp_url: str) -> Iterator[RabbitMQQueues]:
    queues = RabbitMQTransport(amqp_url, connection_name="arguments").queues()
    yield queues
    queues.close()


@pytest.mark.parametrize("kind", ["classic", "quorum"])
@pytest.mark.parametrize("bounds", [{}, BOUNDED], ids=["alone", "bounded"])
def test_a_dead_letter_exchange_is_seen(
    queues: RabbitMQQueues,
    far_side: FarSide,
    queue_name: Callable[..., str],
    kind: str,
    bounds: dict[str, int],
) -> None:
    name = far_side.declare(queue_name(), x_queue_type=kind, **bounds, **DEAD_LETTERING)

    assert queues.dead_letters(name) is True


def test_the_default_exchange_is_one(
    queues: RabbitMQQueues, far_side: FarSide, queue_name: Callable[..., str]
) -> None:
    name = far_side.declare(queue_name(), x_dead_letter_exchange="")

    assert queues.dead_letters(name) is True


def test_it_is_seen_of_a_queue_that_is_not_durable(
    queues: RabbitMQQueues, far_side: FarSide, queue_name: Callable[..., str]
) -> None:
    name = far_side.declare(queue_name(), durable=False, **DEAD_LETTERING)

    assert queues.dead_letters(name) is True


@pytest.mark.parametrize("kind", ["classic", "quorum"])
@pytest.mark.parametrize("bounds", [{}, BOUNDED], ids=["alone", "bounded"])
def test_that_there_is_none_is_seen(
    queues: RabbitMQQueues,
    far_side: FarSide,
    queue_name: Callable[..., str],
    kind: str,
    bounds: dict[str, int],
) -> None:
    name = far_side.declare(queue_name(), x_queue_type=kind, **bounds)

    assert queues.dead_letters(name) is False


def test_a_question_about_a_missing_queue_does_not_declare_it(
    queues: RabbitMQQueues, queue_name: Callable[..., str]
) -> None:
    name = queue_name("missing")

    assert has_dead_letter_exchange(queues.trying(name)) is None
    find_delivery_limit(queues.trying(name), usual=None)

    assert queues.look(name) is None


def test_consumers_are_counted(
    queues: RabbitMQQueues, far_side: FarSide, queue_name: Callable[..., str]
) -> None:
    name = far_side.declare(queue_name())
    for _ in range(2):
        far_side.channel.basic_consume(name, lambda *_: None)

    found = queues.look(name)

    assert found is not None
    assert found.consumers == 2
