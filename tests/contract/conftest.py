"""Fixtures of the contract tests."""

from collections.abc import Callable, Iterator

import pytest

from tests.support.far_side import FarSide
from tests.support.rabbitmq_habits import RabbitMQHabits
from tests.support.tcp_proxy import TcpProxy


@pytest.fixture
def far_side(amqp_url: str) -> Iterator[FarSide]:
    """Give somebody else's client."""
    far_side = FarSide(amqp_url)
    yield far_side
    far_side.close()


@pytest.fixture
def habits(far_side: FarSide) -> RabbitMQHabits:
    """Give what the broker does of itself, by its version."""
    return RabbitMQHabits(far_side.version)


@pytest.fixture
def classic_queue(far_side: FarSide, queue_name: Callable[..., str]) -> str:
    """Give a durable classic queue of somebody else's."""
    return far_side.declare(queue_name("classic"))


@pytest.fixture
def proxy(amqp_url: str) -> Iterator[TcpProxy]:
    """Stand between the transport and the broker."""
    with TcpProxy(amqp_url) as proxy:
        yield proxy
