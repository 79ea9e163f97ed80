"""The embedded broker between Retrier and plain Kombu programs in other processes."""

import signal
from pathlib import Path

import pytest
from kombu import Connection, Message, Producer

from retrier.domain import headers
from retrier.domain.wire import Confirmed, Delivery, Outgoing
from retrier.transport.embedded import EmbeddedTransport
from retrier.transport.seam import Publisher, Queues
from tests.contract.embedded_fixtures import (
    Connect,
    EmbeddedFixtures,
    Start,
    ask_file,
    hear,
    tell,
)
from tests.contract.transport_fixtures import Consume, nothing
from tests.support.copies import retry_of
from tests.support.kombu_envelopes import TYPED_HEADERS
from tests.support.kombu_program import failed_headers
from tests.support.receiving import SILENCE, bodies, receive
from tests.support.waiting import wait_until

AT_ONCE = 15.0
"""Seconds; the lease of whoever was killed is twice as long."""
SHORT = 0.4
"""Seconds of a lease that a test lets run out."""
LONGER = 9
"""Seconds of a lease that is to be renewed, on a machine that stands still now and then, too."""
CODEC = EmbeddedTransport.codec

PUBLISHED = {
    "JSON": {"body": {"order": 1}},
    "text": {"body": "größe"},
    "bytes": {"body": b"\x00\xff"},
    "nothing": {"body": b""},
    "compressed": {"body": {"order": "x" * 1000}, "compression": "zlib"},
    "UTF-16": {
        "body": "größe".encode("utf-16"),
        "content_type": "text/plain",
        "content_encoding": "utf-16",
    },
    "five megabytes": {"body": bytes(range(256)) * 20480},
    "headers of every type": {"body": "x", "headers": {**TYPED_HEADERS, "not a number": None}},
    "properties": {
        "body": "x",
        "priority": 7,
        "delivery_mode": 1,
        "correlation_id": "c-1",
        "reply_to": "answers",
        "timestamp": 1_700_000_000,
        "type": "OrderPlaced",
        "app_id": "shop",
    },
}
RETRY_HEADERS = (headers.UNIQUE_MESSAGE_ID, headers.RETRY_ID, headers.ACKNOWLEDGEMENT_QUEUE)


def staged_and_forwarded(delivery: Delivery) -> bytes:
    """Return the properties of a failed message after its way through the staging queue."""
    return retry_of(CODEC, delivery.raw, dialect="retrier")


def ids(deliveries: list[Delivery]) -> list[object]:
    return [CODEC.read(each.raw).fields["message_id"] for each in deliveries]


def take(connection: Connection, queue: str) -> Message:
    message = connection.default_channel.basic_get(queue)
    assert message is not None
    return message


def properties_of(message: Message) -> dict[str, object]:
    """Return the properties, less the name of this one delivery."""
    return {k: v for k, v in message.properties.items() if k != "delivery_tag"}


class TestKombuProgramsOnTheEmbeddedBroker(EmbeddedFixtures):
    @pytest.fixture(autouse=True)
    def _queues(self, queues: Queues) -> None:
        queues.declare_error_queue("error")
        queues.declare_error_queue("orders")

    def test_a_failed_message_comes_as_a_program_published_it(
        self, start: Start, consume: Consume
    ) -> None:
        start("publish", "error", 1, "m").wait()

        (delivery,) = receive(consume("error"), 1)

        read = CODEC.read(delivery.raw)
        assert read.headers == failed_headers("orders")
        assert read.fields == {
            "content_type": "application/json",
            "content_encoding": "utf-8",
            "delivery_mode": 2,
            "priority": 0,
            "message_id": "m-0",
        }
        assert delivery.body == b'{"order": 0}'

    def test_a_program_consumes_what_is_forwarded(
        self, start: Start, publisher: Publisher, consume: Consume, queues: Queues
    ) -> None:
        start("publish", "error", 3, "m").wait()
        failed = receive(consume("error"), 3)

        publisher.publish(
            [
                Outgoing(queue="orders", raw=staged_and_forwarded(each), body=each.body)
                for each in failed
            ],
            nothing,
        )

        program = start("consume", "orders")
        assert [hear(program) for _ in range(4)] == ["consuming", "m-0", "m-1", "m-2"]
        assert tell(program) == []
        assert queues.depth("orders") == 0

    @pytest.mark.parametrize("published", PUBLISHED.values(), ids=PUBLISHED.keys())
    def test_a_retry_is_to_a_program_the_message_that_was_published(
        self,
        connect: Connect,
        publisher: Publisher,
        consume: Consume,
        published: dict[str, object],
    ) -> None:
        connection = connect()
        Producer(connection).publish(routing_key="orders", message_id="m-1", **published)
        Producer(connection).publish(routing_key="error", message_id="m-1", **published)
        (failed,) = receive(consume("error"), 1)

        retry = Outgoing(queue="orders", raw=staged_and_forwarded(failed), body=failed.body)
        publisher.publish([retry], nothing)

        first, second = take(connection, "orders"), take(connection, "orders")
        added = {name: second.headers.pop(name) for name in RETRY_HEADERS}
        assert added[headers.RETRY_ID] == "r-1"
        assert second.headers == first.headers
        assert (second.body, second.payload) == (first.body, first.payload)
        assert (second.content_type, second.content_encoding) == (
            first.content_type,
            first.content_encoding,
        )
        assert properties_of(second) == {**properties_of(first), "delivery_mode": 2}

    def test_a_waiting_consumer_is_handed_at_once_what_a_killed_program_held(
        self, start: Start, consume: Consume
    ) -> None:
        start("publish", "error", 3, "m").wait()
        holder = start("hold", "error", 3, 30)
        hear(holder)
        consumer = consume("error")
        assert consumer.receive(3, SILENCE) == []

        holder.kill()  # not waited for: a zombie is dead, too

        received = receive(consumer, 3)
        assert ids(received) == ["m-0", "m-1", "m-2"]
        assert all(each.redelivered for each in received)

    def test_what_a_killed_program_held_comes_ahead_of_what_was_behind_it(
        self, start: Start, consume: Consume
    ) -> None:
        start("publish", "error", 20, "m").wait()
        holder = start("hold", "error", 10, 30)
        hear(holder)
        consumer = consume("error")
        behind = receive(consumer, 1)

        holder.kill()
        holder.wait()

        assert ids(behind) == ["m-10"]
        rest = [f"m-{number}" for number in range(20) if number != 10]
        assert ids(receive(consumer, 19)) == rest

    def test_a_program_that_ends_without_a_word_gives_back_what_it_held(
        self, start: Start, queues: Queues
    ) -> None:
        start("publish", "error", 2, "m").wait()
        holder = start("hold", "error", 2, 30)
        hear(holder)

        holder.send_signal(signal.SIGTERM)

        wait_until(lambda: queues.depth("error") == 2, AT_ONCE)

    def test_three_producers_and_two_consumers_lose_nothing_and_double_nothing(
        self, start: Start, queues: Queues
    ) -> None:
        consumers = [start("consume", "orders") for _ in range(2)]
        for consumer in consumers:
            hear(consumer)

        producers = [start("publish", "orders", 150, name) for name in "abc"]

        assert [producer.wait() for producer in producers] == [0, 0, 0]
        wait_until(lambda: queues.depth("orders") == 0, 10)
        consumed = [tell(consumer) for consumer in consumers]
        published = [f"{name}-{number}" for name in "abc" for number in range(150)]
        assert sorted(consumed[0] + consumed[1]) == sorted(published)
        assert queues.depth("orders") == 0

    def test_a_long_handler_keeps_its_messages(
        self, start: Start, consume: Consume, queues: Queues, tmp_path: Path
    ) -> None:
        start("publish", "error", 2, "m").wait()
        holder = start("hold", "error", 2, LONGER)
        hear(holder)

        def held_until() -> float:
            ((until,),) = ask_file(tmp_path / "broker.db", "SELECT max(until) FROM holders")
            return until

        # Only then a consumer of ours: its lease is longer.
        first = held_until()
        wait_until(lambda: held_until() > first + LONGER, 30)
        assert consume("error").receive(2, SILENCE) == []

        tell(holder)
        assert queues.depth("error") == 0

    def test_a_frozen_program_loses_its_messages_and_its_late_ack_deletes_nothing(
        self, start: Start, consume: Consume, queues: Queues
    ) -> None:
        start("publish", "error", 2, "m").wait()
        holder = start("hold", "error", 2, SHORT)
        hear(holder)
        holder.send_signal(signal.SIGSTOP)
        consumer = consume("error")
        received = receive(consumer, 2)

        holder.send_signal(signal.SIGCONT)
        tell(holder)
        consumer.close()

        assert ids(received) == ["m-0", "m-1"]
        assert queues.depth("error") == 2

    def test_programs_and_retrier_keep_one_order(
        self, connect: Connect, publisher: Publisher, consume: Consume
    ) -> None:
        producer = Producer(connect())

        for number in range(0, 6, 2):
            producer.publish(b"%d" % number, routing_key="orders")
            message = self.message("orders", b"%d" % (number + 1))
            assert publisher.publish([message], nothing) == (Confirmed(),)

        received = receive(consume("orders"), 6)
        assert bodies(received) == [b"%d" % number for number in range(6)]
