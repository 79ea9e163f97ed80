"""What a Kombu program may do with a channel of the embedded broker, and what it is told."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import amqp
import pytest
from amqp.exceptions import ConsumerCancelled, PreconditionFailed
from kombu import Connection, Consumer, Exchange, Message, Producer, Queue
from kombu.exceptions import ChannelError
from kombu.transport.virtual import UndeliverableWarning

from retrier.domain.wire import Outgoing
from retrier.errors import BrokerUnavailable, ConfigurationError
from retrier.transport.embedded.broker_file import LARGEST_MESSAGE
from retrier.transport.seam import Publisher, Queues
from tests.contract.embedded_fixtures import Connect, EmbeddedFixtures, take_leases_away
from tests.contract.transport_fixtures import Consume, nothing
from tests.support.receiving import bodies, receive

Messages = list[Message]
SINGLE_ACTIVE = {"x-single-active-consumer": True}


class KombuFixtures(EmbeddedFixtures):
    @pytest.fixture
    def connection(self, connect: Connect, queues: Queues) -> Connection:
        """Give a connection, and the queue `orders`."""
        queues.declare_error_queue("orders")
        connection: Connection = connect()
        return connection

    @pytest.fixture
    def channel(self, connection: Connection) -> object:
        """Give the connection's channel."""
        return connection.default_channel

    @pytest.fixture
    def publish(self, connection: Connection) -> Callable[..., None]:
        """Publish bodies to `orders`."""

        def publish(*payloads: bytes) -> None:
            for payload in payloads:
                Producer(connection).publish(payload, routing_key="orders")

        return publish


def drain(connection: Connection, count: int) -> None:
    """Let so many messages be delivered."""
    for _ in range(count):
        connection.drain_events(timeout=5)


def consumer_of(connection: Connection, into: Messages, **options: object) -> Consumer:
    """Consume `orders` on a channel of its own."""
    return Consumer(
        connection.channel(),
        [Queue("orders")],
        on_message=into.append,
        auto_declare=False,
        **options,
    )


class TestQueuesOfKombu(KombuFixtures):
    def test_a_missing_queue_is_not_found(self, channel) -> None:
        with pytest.raises(amqp.NotFound):
            channel.queue_declare("missing", passive=True)

    def test_looking_does_not_declare(self, channel, queues: Queues) -> None:
        with pytest.raises(amqp.NotFound):
            channel.queue_declare("missing", passive=True)

        assert queues.depth("missing") is None

    def test_looking_counts_what_is_ready(self, channel, publish) -> None:
        publish(b"0", b"1", b"2")
        channel.basic_get("orders")

        assert channel.queue_declare("orders", passive=True).message_count == 2

    def test_looking_at_a_queue_with_arguments_needs_none(self, channel, queues: Queues) -> None:
        queues.declare_staging_queue("staging")

        assert channel.queue_declare("staging", passive=True).message_count == 0

    def test_a_queue_without_a_name_gets_one(self, channel, queues: Queues) -> None:
        name = channel.queue_declare().queue

        assert queues.depth(name) == 0

    def test_declaring_again_keeps_what_it_holds(self, channel, publish) -> None:
        publish(b"0")

        assert channel.queue_declare("orders").message_count == 1

    @pytest.mark.parametrize(("first", "second"), [({}, SINGLE_ACTIVE), (SINGLE_ACTIVE, {})])
    def test_declaring_with_other_arguments_is_refused(self, channel, first, second) -> None:
        channel.queue_declare("declared", arguments=first)

        with pytest.raises(PreconditionFailed):
            channel.queue_declare("declared", arguments=second)

    def test_purges_what_is_ready(self, channel, publish) -> None:
        publish(b"0", b"1", b"2")
        held = channel.basic_get("orders")

        assert channel.queue_purge("orders") == 2

        held.requeue()
        assert channel.queue_declare("orders", passive=True).message_count == 1

    def test_purging_a_missing_queue_is_not_found(self, channel) -> None:
        with pytest.raises(amqp.NotFound):
            channel.queue_purge("missing")

    def test_deletes_a_queue_of_the_default_exchange(self, channel, publish, queues) -> None:
        publish(b"0")

        channel.queue_delete("orders")

        assert queues.depth("orders") is None

    def test_deletes_only_an_empty_queue_if_told_so(self, channel, publish, queues) -> None:
        publish(b"0")
        channel.queue_delete("orders", if_empty=True)
        assert queues.depth("orders") == 1

        channel.queue_purge("orders")
        channel.queue_delete("orders", if_empty=True)

        assert queues.depth("orders") is None

    def test_a_deleted_queue_is_bound_to_nothing(self, channel) -> None:
        exchange = Exchange("shop", type="direct")
        Queue("bound", exchange, "key", channel=channel).declare()
        channel.queue_delete("bound")

        Producer(channel, exchange).publish("x", routing_key="key")

        with pytest.raises(amqp.NotFound):
            channel.queue_declare("bound", passive=True)


class TestPublishingWithKombu(KombuFixtures):
    @pytest.mark.parametrize("mandatory", [True, False])
    def test_publishing_to_a_missing_queue_is_an_error(self, connection, queues, mandatory) -> None:
        with pytest.raises(amqp.NotFound, match="missing"):
            Producer(connection).publish("x", routing_key="missing", mandatory=mandatory)

        assert queues.depth("missing") is None

    def test_an_exchange_nobody_declared_is_not_found(self, channel) -> None:
        with pytest.raises(amqp.NotFound):
            Producer(channel).publish("x", exchange="undeclared", routing_key="orders")

    def test_a_direct_exchange_leads_to_its_queues(self, channel, queues) -> None:
        exchange = Exchange("shop", type="direct")
        for name in ("one", "two"):
            Queue(name, exchange, "key", channel=channel).declare()

        Producer(channel, exchange).publish("x", routing_key="key")

        assert (queues.depth("one"), queues.depth("two")) == (1, 1)

    def test_what_is_bound_to_nothing_is_dropped(self, channel) -> None:
        Producer(channel, Exchange("shop", type="direct")).publish("x", routing_key="nothing")

    def test_what_is_mandatory_and_bound_to_nothing_is_an_error(self, channel) -> None:
        producer = Producer(channel, Exchange("shop", type="direct"))

        with pytest.raises(ChannelError, match="NO_ROUTE"):
            producer.publish("x", routing_key="nothing", mandatory=True)

    def test_what_is_too_large_is_refused(self, connection) -> None:
        channel = connection.default_channel
        message = channel.prepare_message("", headers={}, properties={})
        channel.body_encoding = None

        with pytest.raises(PreconditionFailed, match="at most"):
            channel.basic_publish({**message, "body": bytes(LARGEST_MESSAGE)}, "", "orders")

    def test_a_header_that_json_cannot_hold_is_refused(self, connection, queues) -> None:
        with pytest.raises(TypeError):
            Producer(connection).publish("x", routing_key="orders", headers={"h": object()})

        assert queues.depth("orders") == 0

    def test_a_batch_is_stored_at_its_end(self, connection, queues, consume: Consume) -> None:
        producer = Producer(connection)
        assert producer.supports_batch_publish

        with producer.batch():
            for number in range(3):
                producer.publish(b"%d" % number, routing_key="orders")
            assert queues.depth("orders") == 0

        assert bodies(receive(consume("orders"), 3)) == [b"0", b"1", b"2"]

    def test_a_full_batch_is_stored(self, connection, queues) -> None:
        producer = Producer(connection)

        with producer.batch(max_size=2):
            for _ in range(3):
                producer.publish(b"x", routing_key="orders")

            assert queues.depth("orders") == 2
        assert queues.depth("orders") == 3

    def test_a_batch_that_ends_with_an_error_is_dropped(self, connection, queues) -> None:
        producer = Producer(connection)

        def publish_half() -> None:
            with producer.batch():
                producer.publish(b"x", routing_key="orders")
                raise RuntimeError

        with pytest.raises(RuntimeError):
            publish_half()

        assert queues.depth("orders") == 0

    def test_a_batch_with_a_missing_queue_stores_nothing(self, connection, queues) -> None:
        producer = Producer(connection)

        def publish_two() -> None:
            with producer.batch():
                producer.publish(b"x", routing_key="orders")
                producer.publish(b"x", routing_key="missing")

        with pytest.raises(amqp.NotFound, match="missing"):
            publish_two()

        assert queues.depth("orders") == 0

    def test_a_body_without_base64_is_the_same_body(self, connect, queues, consume) -> None:
        queues.declare_error_queue("orders")

        Producer(connect(body_encoding=None)).publish("größe", routing_key="orders")

        assert bodies(receive(consume("orders"), 1)) == ["größe".encode()]

    @pytest.mark.parametrize(("body", "taken"), [(None, b""), ("größe", "größe".encode())])
    def test_a_payload_that_was_put_by_hand_arrives(self, channel, body, taken) -> None:
        channel._put("orders", {"body": body})  # noqa: SLF001 - Kombu's own way to forward

        assert channel.basic_get("orders").body == taken

    def test_what_has_no_route_goes_to_the_queue_that_is_set_for_it(self, connect, queues) -> None:
        producer = Producer(connect(deadletter_queue="lost"), Exchange("shop", type="direct"))

        with pytest.warns(UndeliverableWarning):
            producer.publish("x", routing_key="nothing")

        assert queues.depth("lost") == 1


class TestConsumingWithKombu(KombuFixtures):
    def test_tells_where_it_comes_from_and_that_it_is_new(self, channel, publish) -> None:
        publish(b"0")

        message = channel.basic_get("orders")

        assert message.delivery_info == {
            "exchange": "",
            "routing_key": "orders",
            "redelivered": False,
            "delivery_count": 0,
        }

    def test_a_message_without_properties_can_be_taken(self, channel, publisher) -> None:
        publisher.publish([self.message("orders", b"x")], nothing)

        message = channel.basic_get("orders")

        assert (message.body, message.headers, message.content_type) == (b"x", {}, None)

    def test_a_header_that_only_looks_like_a_type_blocks_nothing(self, channel, publisher) -> None:
        header = {"__type__": "unheard of", "__value__": 1}
        raw = json.dumps({"headers": {"h": header}}).encode()
        publisher.publish([Outgoing(queue="orders", raw=raw, body=b"x")], nothing)

        message = channel.basic_get("orders")

        assert message.headers == {"h": header}

    def test_a_message_put_back_goes_to_its_place_and_is_marked(self, channel, publish) -> None:
        publish(b"0", b"1", b"2")
        for _ in range(2):
            channel.basic_get("orders").requeue()

        message = channel.basic_get("orders")

        assert message.body == b"0"
        assert message.delivery_info["redelivered"] is True
        assert message.delivery_info["delivery_count"] == 2

    def test_a_rejected_message_is_gone(self, channel, publish) -> None:
        publish(b"0")

        channel.basic_get("orders").reject()

        assert channel.basic_get("orders") is None

    def test_a_message_that_nobody_acknowledges_is_gone_at_once(
        self, channel, publish, queues
    ) -> None:
        publish(b"0")

        assert channel.basic_get("orders", no_ack=True).body == b"0"

        channel.close()
        assert queues.depth("orders") == 0

    def test_a_consumer_that_acknowledges_nothing_gets_each_once(
        self, connection, publish, queues
    ) -> None:
        publish(b"0", b"1")
        messages: Messages = []

        with consumer_of(connection, messages, no_ack=True):
            drain(connection, 2)

        assert [message.body for message in messages] == [b"0", b"1"]
        connection.close()
        assert queues.depth("orders") == 0

    def test_acknowledges_all_up_to_one(self, connection, publish, queues) -> None:
        publish(b"0", b"1", b"2", b"3")
        messages: Messages = []
        consumer = consumer_of(connection, messages)
        consumer.consume()
        drain(connection, 4)

        messages[2].ack(multiple=True)

        connection.close()
        assert queues.depth("orders") == 1

    def test_acknowledging_twice_what_was_acknowledged_with_others_is_harmless(
        self, channel, publish
    ) -> None:
        publish(b"0", b"1")
        first, second = channel.basic_get("orders"), channel.basic_get("orders")

        second.ack(multiple=True)
        first.ack(multiple=True)

        assert channel.queue_declare("orders", passive=True).message_count == 0

    def test_recovering_puts_everything_back_in_order(self, channel, publish) -> None:
        publish(b"0", b"1", b"2")
        channel.basic_get("orders")
        channel.basic_get("orders")

        channel.basic_recover(requeue=True)

        assert [channel.basic_get("orders").body for _ in range(3)] == [b"0", b"1", b"2"]

    def test_is_handed_no_more_than_the_prefetch(self, connection, publish) -> None:
        publish(b"0", b"1", b"2")
        messages: Messages = []
        consumer = consumer_of(connection, messages, prefetch_count=2)
        consumer.consume()

        drain(connection, 2)

        with pytest.raises(TimeoutError):
            connection.drain_events(timeout=0.2)
        messages[0].ack()
        drain(connection, 1)
        assert [message.body for message in messages] == [b"0", b"1", b"2"]

    def test_one_connection_consumes_several_queues(self, connection, publish, queues) -> None:
        queues.declare_error_queue("more")
        publish(b"0")
        Producer(connection).publish(b"1", routing_key="more")
        messages: Messages = []

        with Consumer(connection, [Queue("orders"), Queue("more")], on_message=messages.append):
            drain(connection, 2)

        assert sorted(message.body for message in messages) == [b"0", b"1"]

    def test_closing_a_channel_gives_back_what_it_held_and_no_more(
        self, connection, publish, queues
    ) -> None:
        publish(b"0", b"1")
        one, other = connection.channel(), connection.channel()
        one.basic_get("orders")
        kept = other.basic_get("orders")

        one.close()

        assert queues.depth("orders") == 1
        kept.ack()
        connection.close()
        assert queues.depth("orders") == 1

    def test_a_closed_channel_says_so(self, channel, publish) -> None:
        publish(b"0")
        message = channel.basic_get("orders")
        channel.close()

        with pytest.raises(BrokerUnavailable, match="closed"):
            message.ack()

    def test_consuming_a_missing_queue_is_not_found(self, connection) -> None:
        consumer = Consumer(connection, [Queue("missing")], auto_declare=False)

        with pytest.raises(amqp.NotFound):
            consumer.consume()

    def test_getting_from_a_missing_queue_is_not_found(self, channel) -> None:
        with pytest.raises(amqp.NotFound):
            channel.basic_get("missing")

    def test_a_deleted_queue_cancels_its_consumer(self, connection, queues) -> None:
        with consumer_of(connection, []):
            queues.delete("orders")

            with pytest.raises(ConsumerCancelled) as cancelled:
                connection.drain_events(timeout=1)

        assert isinstance(cancelled.value, connection.connection_errors)

    def test_a_staging_queue_has_one_consumer_until_that_is_cancelled(
        self, connect, queues, publisher: Publisher, consume: Consume
    ) -> None:
        queues.declare_staging_queue("orders")
        publisher.publish(self.numbered("orders", 3), nothing)
        connection, messages = connect(), []
        program = consumer_of(connection, messages, prefetch_count=1)
        program.consume()
        drain(connection, 1)
        consumer = consume("orders")

        assert consumer.receive(1, 0.2) == []
        program.cancel()
        assert consumer.receive(1, 0.2) == []
        messages[0].requeue()
        assert bodies(receive(consumer, 3)) == [b"0", b"1", b"2"]

    def test_a_program_that_lost_its_lease_goes_on_under_a_new_one(
        self, connection, publish, transport
    ) -> None:
        publish(b"0", b"1")
        messages: Messages = []
        consumer = consumer_of(connection, messages, prefetch_count=1)
        consumer.consume()
        drain(connection, 1)

        take_leases_away(transport.path)
        for late in range(2):
            messages[late].ack()
            drain(connection, 1)

        assert [message.body for message in messages] == [b"0", b"0", b"1"]
        assert messages[1].delivery_info["redelivered"] is True

    def test_a_simple_queue_works_from_end_to_end(self, connect) -> None:
        with connect().SimpleQueue("simple") as queue:
            queue.put({"order": 1})
            queue.put({"order": 2})
            assert len(queue) == 2

            first, second = queue.get(timeout=5), queue.get(block=False)
            first.ack()
            second.requeue()

            assert first.payload == {"order": 1}
            assert queue.clear() == 1


class TestConnectingWithKombu(KombuFixtures):
    def test_a_relative_path_is_relative_to_where_the_program_runs(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)

        with Connection("embedded:///./data/broker.db") as connection:
            connection.connect()

        assert (tmp_path / "data" / "broker.db").exists()

    def test_a_connection_can_be_made_again_from_what_it_says_of_itself(self, connect) -> None:
        connection = connect()
        connection.SimpleQueue("simple").put("x")

        with Connection(connection.as_uri()) as again, connection.clone() as third:
            assert len(again.SimpleQueue("simple")) == 1
            assert len(third.SimpleQueue("simple")) == 1

    def test_a_closed_connection_opens_again(self, connect) -> None:
        connection = connect()
        connection.connect()
        connection.close()
        assert not connection.connected

        connection.SimpleQueue("simple").put("x")

        assert connection.connected

    @pytest.mark.parametrize("url", ["embedded://", "embedded:///", "embedded://data/broker.db"])
    def test_a_url_without_a_file_is_an_error(self, url: str) -> None:
        with pytest.raises(ConfigurationError, match="embedded:///"):
            Connection(url).connect()

    def test_a_file_that_cannot_be_opened_is_a_connection_error(self, tmp_path: Path) -> None:
        connection = Connection(f"embedded:///{tmp_path}")

        with pytest.raises(BrokerUnavailable, match=str(tmp_path)) as unavailable:
            connection.transport.establish_connection()

        assert isinstance(unavailable.value, connection.connection_errors)

    def test_a_child_must_connect_anew_after_a_fork(self, connection) -> None:
        connection.connect()

        child = os.fork()
        if child == 0:
            try:
                connection.default_channel.queue_declare("orders")
            except BrokerUnavailable:
                os._exit(7)
            os._exit(0)

        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
