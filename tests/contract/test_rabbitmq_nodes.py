"""A broker of several nodes: which one a connection goes to, and what is said if there is none."""

from collections.abc import Iterator
from contextlib import ExitStack
from random import Random

import pytest

from retrier.errors import BrokerUnavailable
from retrier.transport.rabbitmq import RabbitMQTransport
from retrier.transport.rabbitmq.transport import FIRST_LOOK
from tests.support.private_servers import find_free_ports
from tests.support.tcp_proxy import TcpProxy

pytestmark = pytest.mark.rabbitmq


PATIENT = 60.0
"""Seconds of a first look in which a node on a slow machine answers, too."""


class Dice(Random):
    """Always shows the same."""

    def __init__(self, shown: int) -> None:
        super().__init__()
        self.shown = shown

    def randrange(self, *_: int) -> int:
        return self.shown


@pytest.fixture
def nodes(amqp_url: str) -> Iterator[list[TcpProxy]]:
    """Give three ways to the broker; to a client they are three nodes."""
    with ExitStack() as opened:
        yield [opened.enter_context(TcpProxy(amqp_url)) for _ in range(3)]


def transport_to(*urls: str, dice: Random | None = None, first_look: float) -> RabbitMQTransport:
    return RabbitMQTransport(
        *urls, connection_name="nodes", dice=dice or Dice(0), first_look=first_look
    )


def transport_over(
    nodes: list[TcpProxy], dice: Random | None = None, first_look: float = PATIENT
) -> RabbitMQTransport:
    return transport_to(*(node.url for node in nodes), dice=dice, first_look=first_look)


def connect(transport: RabbitMQTransport) -> None:
    transport.queues().close()


def accepted(nodes: list[TcpProxy]) -> list[int]:
    return [node.accepted for node in nodes]


def place_of(node: TcpProxy) -> str:
    return node.url.rpartition("@")[2].strip("/")


def gone(amqp_url: str) -> str:
    """Return the URL of a node that does not run."""
    (port,) = find_free_ports(1)
    return f"{amqp_url.rpartition('@')[0]}@127.0.0.1:{port}//"


def test_the_dice_choose_the_node(nodes: list[TcpProxy]) -> None:
    connect(transport_over(nodes, Dice(2)))

    assert accepted(nodes) == [0, 0, 1]


def test_each_connection_throws_the_dice_by_itself(nodes: list[TcpProxy]) -> None:
    transport = transport_over(nodes, Random(1))  # noqa: S311 - dice of a test

    for _ in range(12):
        connect(transport)

    assert 0 not in accepted(nodes)


@pytest.mark.parametrize("first", [0, 1])
def test_a_node_that_is_gone_is_passed_over(
    amqp_url: str, nodes: list[TcpProxy], first: int
) -> None:
    urls = (gone(amqp_url), gone(amqp_url), nodes[0].url)

    connect(transport_to(*urls, dice=Dice(first), first_look=PATIENT))

    assert nodes[0].accepted == 1


def test_a_node_that_says_nothing_keeps_one_connection_waiting_and_not_the_next(
    nodes: list[TcpProxy],
) -> None:
    transport = transport_over(nodes, first_look=FIRST_LOOK)
    nodes[0].freeze()

    connect(transport)
    tried = nodes[0].accepted
    connect(transport)

    # Which of the others took them is left open: on a slow machine one of them is silent, too.
    assert tried > 0
    assert nodes[0].accepted == tried


def test_a_node_that_was_tried_last_for_its_failure_is_tried_when_the_others_are_gone(
    nodes: list[TcpProxy], amqp_url: str
) -> None:
    transport = transport_to(nodes[0].url, nodes[1].url, gone(amqp_url), first_look=FIRST_LOOK)
    nodes[0].freeze()
    connect(transport)
    # Counted only now: on a slow machine both may have been tried twice.
    before = accepted(nodes)
    nodes[0].cut()
    nodes[1].freeze()

    connect(transport)

    # The one that would have been tried first comes after one that says nothing.
    assert nodes[1].accepted > before[1]
    assert nodes[0].accepted > before[0]


def test_a_node_that_is_slow_is_waited_for_when_the_others_are_gone(
    nodes: list[TcpProxy], amqp_url: str
) -> None:
    nodes[0].delay(0.3)  # both ways: each answer comes 0.6 s after its question

    connect(transport_to(nodes[0].url, gone(amqp_url), first_look=0.4))

    assert nodes[0].accepted == 2


def test_all_that_were_tried_are_named_with_their_reasons_and_without_a_password() -> None:
    ports = find_free_ports(2)
    urls = [f"amqp://me:hunter2@127.0.0.1:{port}//" for port in ports]

    with pytest.raises(BrokerUnavailable) as told:
        connect(transport_to(*urls, first_look=PATIENT))

    reasons = "; ".join(f"127.0.0.1:{port}: Connection refused" for port in ports)
    assert str(told.value) == f"cannot reach the broker at {reasons}"


def test_a_connection_that_breaks_names_the_node_it_was_to(
    nodes: list[TcpProxy], classic_queue: str
) -> None:
    consumer = transport_over(nodes, Dice(1)).consumer(classic_queue, 1)
    nodes[1].cut()

    with pytest.raises(BrokerUnavailable) as told:
        consumer.receive(1, 5)

    assert f" at {place_of(nodes[1])}: " in str(told.value)


def test_people_are_shown_all_nodes() -> None:
    urls = ("amqp://me:hunter2@one.example", "amqp://me:hunter2@two.example:5673")

    transport = transport_to(*urls, first_look=PATIENT)

    assert transport.place == "one.example:5672, two.example:5673"
