"""What only RabbitMQ does to a worker: limits of deliveries, copies by header, lost connections."""

from contextlib import suppress
from typing import Any

import pika.exceptions
import pytest

from retrier.worker import Message, Transient
from tests.contract.worker_fixtures import RabbitMQWorkers, Start
from tests.support.tcp_proxy import TcpProxy
from tests.support.waiting import wait_until
from tests.support.worker_outside import DEADLINE, Outside, take_within

OUTAGE = "nothing is taken: cannot reach the broker"


@pytest.mark.rabbitmq
class TestAQuorumQueueWithADeliveryLimit(RabbitMQWorkers):
    """As each has by default from RabbitMQ 4.0 on."""

    kind = "quorum"

    def test_loses_no_message_that_is_postponed_more_often_than_that(
        self, outside: Outside, orders: str, start: Start
    ) -> None:
        limited = f"{orders}.acks"  # a name that is deleted afterwards
        outside.declare(limited, x_delivery_limit=2)
        outside.put(limited, b"{}", {}, message_id="m-1")

        def wait(_content: object, _message: Message, time: int) -> None:
            if time < 6:
                raise Transient

        running = start(wait, queue=limited, transient_delay=0.02)

        take_within(outside, f"{orders}.results")
        assert running.handled.ids == ["m-1"] * 6


@pytest.mark.rabbitmq
class TestOnARealBroker(RabbitMQWorkers):
    """On classic queues."""

    kind = "classic"

    def test_the_usual_parameters_of_its_url_are_taken(
        self, url: str, outside: Outside, orders: str, start: Start
    ) -> None:
        outside.put(orders, b"x" * 10_000, {}, message_id="m-1")

        start(url=f"{url}?heartbeat=30&connection_timeout=3000&frame_max=8192&channel_max=5")

        take_within(outside, f"{orders}.results")

    def test_a_copy_to_other_queues_is_not_made_a_second_time(
        self, outside: Outside, orders: str, start: Start
    ) -> None:
        outside.declare(f"{orders}.acks")
        outside.put(orders, b"{}", {"CC": [f"{orders}.acks"]}, message_id="m-1")
        take_within(outside, f"{orders}.acks")

        def fail(_content: object, _message: Message, time: int) -> None:
            if time == 1:
                raise Transient
            raise ValueError

        start(fail, transient_delay=0.05)

        take_within(outside, f"{orders}.error")
        assert outside.count(f"{orders}.acks") == 0

    def test_what_another_user_has_sent_can_be_failed(
        self, outside: Outside, orders: str, start: Start
    ) -> None:
        def fail(_content: object, _message: Message, _time: int) -> None:
            raise ValueError

        with suppress(pika.exceptions.AMQPError):
            outside.put(orders, b"{}", {}, message_id="m-1", user_id="guest")

        start(fail)

        assert take_within(outside, f"{orders}.error").properties["user_id"] == "guest"


@pytest.mark.rabbitmq
class TestAConnectionThatBreaks(RabbitMQWorkers):
    """Through a proxy that can be cut."""

    kind = "quorum"

    def test_is_opened_again_and_what_was_in_hand_is_handled_again(
        self,
        outside: Outside,
        orders: str,
        start: Start,
        proxy: TcpProxy,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        # Given a message that is being handled
        cut: list[Any] = []

        def handle(_content: object, _message: Message, time: int) -> None:
            if time == 1:
                cut.append("begun")
                wait_until(lambda: len(cut) > 1, DEADLINE)

        outside.put(orders, b"{}", {}, message_id="m-1")
        running = start(handle, url=proxy.url)
        wait_until(lambda: cut, DEADLINE)

        # When its connections break
        proxy.cut()
        wait_until(lambda: OUTAGE in caplog.text, DEADLINE, "the outage is said")
        cut.append("cut")

        # Then it is handled again, and the outage was said once
        take_within(outside, f"{orders}.results")
        running.end()
        assert running.handled.ids == ["m-1", "m-1"]
        assert outside.count(orders) == 0
        assert outside.count(f"{orders}.results") == 0
        assert caplog.text.count(OUTAGE) == 1
