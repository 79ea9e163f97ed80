"""What the scripted transport does on cue: it refuses, breaks and comes back as a broker might.

What it does without a script is what the conformance suite says: test_scripted_transport.py.
"""

import pytest

from retrier.domain.wire import (
    ChannelClosed,
    Confirmed,
    Outgoing,
    Refused,
    Unknown,
)
from retrier.errors import BrokerUnavailable
from tests.support.script import to_queue
from tests.support.scripted_transport import ScriptedTransport

RAW = b"\x00\x00"


@pytest.fixture
def transport() -> ScriptedTransport:
    made = ScriptedTransport()
    made.broker.declare("orders")
    return made


def nothing() -> None:
    pass


def outgoing(*bodies: bytes, queue: str = "orders") -> list[Outgoing]:
    return [Outgoing(queue=queue, raw=RAW, body=body) for body in bodies]


def bodies(deliveries) -> list[bytes]:
    return [delivery.body for delivery in deliveries]


def put(transport: ScriptedTransport, *contents: bytes) -> None:
    for body in contents:
        transport.broker.put("orders", RAW, body)


class TestPublishing:
    def test_a_cue_is_for_the_next_message_it_matches(self, transport):
        transport.broker.declare("mail")
        transport.cue(Refused("no"), when=to_queue("mail"))
        window = [*outgoing(b"1"), *outgoing(b"2", b"3", queue="mail")]

        outcomes = transport.publisher().publish(window, nothing)

        assert outcomes == (Confirmed(), Refused("no"), Confirmed())

    @pytest.mark.parametrize("outcome", [ChannelClosed("406"), Unknown("reset")])
    def test_what_breaks_the_window_leaves_it_unsettled_and_stored_up_to_there(
        self, transport, outcome
    ):
        transport.cue(outcome, when=lambda message: message.body == b"3", settled=1)

        outcomes = transport.publisher().publish(outgoing(b"1", b"2", b"3", b"4"), nothing)

        assert outcomes == (Confirmed(), outcome, outcome, outcome)
        assert bodies(transport.broker.ready("orders")) == [b"1", b"2"]

    def test_an_unknown_outcome_may_be_stored_all_the_same(self, transport):
        transport.cue(Unknown("reset"), stored=True)

        transport.publisher().publish(outgoing(b"1"), nothing)

        assert bodies(transport.broker.ready("orders")) == [b"1"]

    def test_each_new_connection_sends_its_probe(self, transport):
        publisher = transport.publisher(*outgoing(b"probe"))
        transport.cue(ChannelClosed("406"))
        publisher.publish(outgoing(b"1"), nothing)

        publisher.publish(outgoing(b"2"), nothing)

        assert bodies(transport.broker.ready("orders")) == [b"probe", b"probe", b"2"]

    def test_a_broken_publisher_stays_broken(self, transport):
        publisher = transport.publisher()
        transport.drop_connections()

        with pytest.raises(BrokerUnavailable):
            publisher.publish(outgoing(b"1"), nothing)

    def test_waiting_may_end_the_wait(self, transport):
        def lose() -> None:
            raise BrokerUnavailable("lease lost")

        with pytest.raises(BrokerUnavailable, match="lease lost"):
            transport.publisher().publish(outgoing(b"1"), lose)


class TestConsuming:
    def test_what_the_prefetch_allows_is_handed_out_unasked(self, transport):
        put(transport, b"1", b"2", b"3")

        transport.consumer("orders", prefetch=2)

        assert bodies(transport.broker.unacked("orders")) == [b"1", b"2"]
        assert bodies(transport.broker.ready("orders")) == [b"3"]

    def test_a_lost_connection_gives_back_what_it_held_in_front_in_order_and_marked(
        self, transport
    ):
        put(transport, b"1", b"2", b"3")
        transport.consumer("orders", prefetch=2).receive(10, 1.0)

        transport.drop_connections()

        ready = transport.broker.ready("orders")
        assert bodies(ready) == [b"1", b"2", b"3"]
        assert [delivery.redelivered for delivery in ready] == [True, True, False]

    def test_a_consumer_that_lost_its_connection_does_not_rest(self, transport):
        consumer = transport.consumer("orders", prefetch=1)

        transport.drop_connections()

        assert not consumer.rest()

    def test_a_stale_delivery_cannot_be_acknowledged(self, transport):
        put(transport, b"1")
        stale = transport.consumer("orders", prefetch=1).receive(10, 1.0)
        transport.drop_connections()
        consumer = transport.consumer("orders", prefetch=1)

        with pytest.raises(AssertionError, match="not ours"):
            consumer.ack(stale)

    def test_an_acknowledgement_after_the_queue_is_gone_is_ignored(self, transport):
        put(transport, b"1")
        consumer = transport.consumer("orders", prefetch=1)
        received = consumer.receive(10, 1.0)
        transport.queues().delete("orders")

        consumer.ack(received)

        assert transport.acked == []


class TestFaults:
    def test_a_broker_that_is_down_breaks_what_is_open_and_refuses_what_is_new(self, transport):
        consumer = transport.consumer("orders", prefetch=1)
        transport.go_down()

        with pytest.raises(BrokerUnavailable):
            consumer.receive(1, 1.0)
        with pytest.raises(BrokerUnavailable):
            transport.publisher()

    def test_a_fault_waits_for_the_call_it_is_for(self, transport):
        transport.fail("queues.depth", BrokerUnavailable("reset"))
        queues = transport.queues()
        queues.purge("orders")

        with pytest.raises(BrokerUnavailable, match="reset"):
            queues.depth("orders")

    def test_calls_are_noted_in_order(self, transport):
        publisher = transport.publisher()
        publisher.publish(outgoing(b"1"), nothing)
        publisher.close()

        assert transport.calls == ["transport.publisher", "publisher.publish", "publisher.close"]
