"""A queue that does not answer is told from a broker that is not there, or takes its time."""

import pytest

from retrier.domain.wire import Confirmed, Outgoing
from retrier.errors import BrokerUnavailable, QueueSilent
from retrier.transport.rabbitmq import RabbitMQTransport
from tests.contract.transport_fixtures import nothing
from tests.support.amqp_bytes import BLOCKED, NO_PROPERTIES, UNBLOCKED
from tests.support.tcp_proxy import TcpProxy
from tests.support.waiting import let_pass

pytestmark = pytest.mark.rabbitmq

LONGER_THAN_ANY_SILENCE = 11
UNHURRIED = 20.0
"""A heartbeat so slow that the broker misses nothing while all that we write is held back."""


def transport_at(proxy: TcpProxy, heartbeat: float = UNHURRIED) -> RabbitMQTransport:
    return RabbitMQTransport(proxy.url, connection_name="silence", heartbeat=heartbeat)


def message(queue: str) -> Outgoing:
    return Outgoing(queue=queue, raw=NO_PROPERTIES, body=b"x")


def test_a_probe_queue_that_confirms_nothing_is_silent(proxy: TcpProxy, classic_queue: str) -> None:
    publisher = transport_at(proxy).publisher(message(classic_queue))
    proxy.hold()

    with pytest.raises(QueueSilent, match="confirmed nothing") as caught:
        publisher.publish([message("elsewhere")], nothing)

    assert caught.value.queue == classic_queue


def test_a_queue_that_does_not_answer_a_question_is_silent(
    proxy: TcpProxy, classic_queue: str
) -> None:
    queues = transport_at(proxy).queues()
    proxy.hold()

    with pytest.raises(QueueSilent, match="nothing came") as caught:
        queues.purge(classic_queue)

    assert caught.value.queue == classic_queue


def test_a_broker_under_an_alarm_is_not_silent_however_long_it_lasts(
    proxy: TcpProxy, classic_queue: str
) -> None:
    publisher = transport_at(proxy).publisher(message(classic_queue))
    proxy.hold()
    proxy.say(BLOCKED)
    waited: list[None] = []

    def waiting() -> None:
        if not waited:
            let_pass(LONGER_THAN_ANY_SILENCE)
            proxy.say(UNBLOCKED)
            proxy.release()
        waited.append(None)

    assert publisher.publish([message(classic_queue)], waiting) == (Confirmed(),)
    publisher.close()


def test_a_frozen_broker_is_a_lost_connection_and_no_silent_queue(
    proxy: TcpProxy, classic_queue: str
) -> None:
    # Not quicker: a line that lay idle for a heartbeat would be replaced, and nobody be reached.
    queues = transport_at(proxy, heartbeat=3).queues()
    proxy.freeze()

    with pytest.raises(BrokerUnavailable, match="heartbeats") as caught:
        queues.purge(classic_queue)

    assert not isinstance(caught.value, QueueSilent)


def test_a_silent_queue_that_is_not_our_own_is_named_and_waited_for(
    proxy: TcpProxy, classic_queue: str
) -> None:
    publisher = transport_at(proxy).publisher()
    proxy.hold()
    named: list[frozenset[str]] = []

    def waiting() -> None:
        if not named:
            let_pass(LONGER_THAN_ANY_SILENCE)
            named.append(publisher.awaited.queues)
            proxy.release()

    outcomes = publisher.publish([message(classic_queue)], waiting)

    assert (outcomes, named) == ((Confirmed(),), [{classic_queue}])
    publisher.close()
