"""What publishes for Dramatiq, while the broker breaks its connection or does not answer."""

from collections.abc import Callable, Iterator

import pika
import pytest

from retrier.integrations.dramatiq.letters import Letter
from retrier.integrations.dramatiq.publisher import NotPublished, Publisher
from tests.support.dramatiq_site import vars_of
from tests.support.far_side import FarSide
from tests.support.tcp_proxy import TcpProxy
from tests.support.waiting import wait_until

pytestmark = pytest.mark.rabbitmq

TIMEOUT = 8.0
"""Seconds for what must succeed, however slow this machine is."""
SHORT = 1.0
"""Seconds for what gets no answer."""


@pytest.fixture
def far(amqp_url: str) -> Iterator[FarSide]:
    far = FarSide(amqp_url)
    yield far
    far.close()


@pytest.fixture
def letter(far: FarSide, queue_name: Callable[..., str]) -> Letter:
    properties = pika.BasicProperties(message_id="m-1")
    return Letter(queue=far.declare(queue_name("error")), properties=properties, shorter=properties)


@pytest.fixture
def proxy(amqp_url: str) -> Iterator[TcpProxy]:
    with TcpProxy(amqp_url) as proxy:
        yield proxy


@pytest.fixture
def publisher(proxy: TcpProxy) -> Publisher:
    return Publisher(pika.ConnectionParameters(**vars_of(proxy.url)), TIMEOUT)


def publish_in_vain(publisher: Publisher, letter: Letter) -> None:
    """Publish over a connection that is silent by now, and do not wait long."""
    publisher._timeout = SHORT  # noqa: SLF001 - made with one for all it does
    try:
        publisher.publish(letter)
    finally:
        publisher._timeout = TIMEOUT  # noqa: SLF001


def test_a_connection_that_broke_unseen_is_opened_again(
    far: FarSide, letter: Letter, proxy: TcpProxy, publisher: Publisher
) -> None:
    publisher.publish(letter)
    proxy.cut()

    publisher.publish(letter)

    assert far.count(letter.queue) == 2


def test_a_connection_that_is_half_open_holds_up_one_task_only(
    far: FarSide, letter: Letter, proxy: TcpProxy, publisher: Publisher
) -> None:
    publisher.publish(letter)
    proxy.half_open()
    with pytest.raises(NotPublished, match="has not answered in 1 seconds"):
        publish_in_vain(publisher, letter)

    publisher.publish(letter)

    assert far.count(letter.queue) == 2


def test_a_broker_that_does_not_answer_holds_up_two_tasks_only(
    letter: Letter, proxy: TcpProxy, publisher: Publisher
) -> None:
    publisher.publish(letter)
    proxy.freeze()
    for _ in range(2):
        with pytest.raises(NotPublished, match="has not answered in 1 seconds"):
            publish_in_vain(publisher, letter)

    with pytest.raises(NotPublished, match="the last time either"):
        publisher.publish(letter)


def test_it_goes_on_when_the_broker_answers_again(
    far: FarSide, letter: Letter, proxy: TcpProxy, publisher: Publisher
) -> None:
    publisher.publish(letter)
    proxy.freeze()
    with pytest.raises(NotPublished):
        publish_in_vain(publisher, letter)
    proxy.thaw()
    wait_until(lambda: far.count(letter.queue) == 2, 15)
    wait_until(lambda: not publisher.stuck, 15)

    publisher.publish(letter)

    assert far.count(letter.queue) == 3
