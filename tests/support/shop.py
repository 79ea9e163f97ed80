"""A shop on RabbitMQ, seen with another client library (pika): it fails, is retried, confirms."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any
from uuid import uuid4

import pika
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.servers import pika_connection
from tests.support.waiting import wait_until

NSB_TIME = "2026-05-04 12:00:00:123456 Z"
EXCEPTION = "Shop.OutOfStock"
STACK_TRACE = f"{EXCEPTION}: nothing left\n   at Shop.Stock.Take(String item) in Stock.cs:line 7"


@dataclass(frozen=True, slots=True)
class Sent:
    """One message as it is on a queue."""

    properties: pika.BasicProperties
    body: bytes

    @property
    def headers(self) -> dict[str, Any]:
        return dict(self.properties.headers or {})


class Shop:
    """Queues of one test, and what a producer and a consumer do with them."""

    def __init__(self, channel: BlockingChannel, name: Callable[..., str], kind: str) -> None:
        self.channel = channel
        self.kind = kind
        self.error = self.declare(name("error"))
        self.orders = self.declare(name("orders"))
        self.payments = self.declare(
            name("payments"),
            {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": self.error},
        )
        channel.confirm_delivery()

    def declare(self, queue: str, arguments: dict[str, Any] | None = None) -> str:
        """Declare a durable queue of this shop's kind."""
        self.channel.queue_declare(
            queue, durable=True, arguments={"x-queue-type": self.kind, **(arguments or {})}
        )
        return queue

    def delete(self, queue: str) -> None:
        """Delete a queue with all it holds."""
        self.channel.queue_delete(queue)

    def fail(self, count: int = 1, *, queue: str | None = None) -> dict[str, Sent]:
        """Put failed messages on the error queue, as NServiceBus does; return them by message id."""
        failed = self.make_failures(count, queue)
        for sent in failed:
            self.channel.basic_publish("", self.error, sent.body, sent.properties)
        return {sent.properties.message_id: sent for sent in failed}

    def make_failures(self, count: int, queue: str | None = None) -> list[Sent]:
        """Make failed messages, as NServiceBus does; they are on no queue yet."""
        return [self._make_failure(queue or self.orders) for _ in range(count)]

    def put_nonsense(self) -> None:
        """Put a message on the error queue that does not say where it failed."""
        self.put({}, b"?")

    def put(self, headers: Mapping[str, Any], body: bytes) -> None:
        """Put a message with these headers on the error queue."""
        properties = pika.BasicProperties(headers=dict(headers))
        self.channel.basic_publish("", self.error, body, properties)

    def dead_letter(self, count: int) -> dict[str, Sent]:
        """Let RabbitMQ itself dead-letter messages; return them as they were published."""
        published = [self._make_payment() for _ in range(count)]
        for sent in published:
            self.channel.basic_publish("", self.payments, sent.body, sent.properties)
        for _ in range(count):
            self._reject_one()
        return {sent.properties.message_id: sent for sent in published}

    def let_die(self, sent: Sent) -> None:
        """Let RabbitMQ dead-letter a message to the error queue, from a queue where it expires."""
        arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": self.error}
        slow = self.declare(
            f"{self.error}.slow", arguments | {"x-message-ttl": 0, "x-expires": 10_000}
        )
        self.channel.basic_publish("", slow, sent.body, sent.properties)

    def look(self, queue: str, count: int) -> list[Sent]:
        """Look at so many messages of a queue, and leave them there."""
        wait_until(lambda: self.depth(queue) >= count, 10)
        # Not one by one: a quorum queue with a single active consumer has no such thing.
        got = list(islice(self.channel.consume(queue), count))
        for method, _, _ in got:
            self.channel.basic_nack(method.delivery_tag)
        self.channel.cancel()
        return [Sent(properties, body) for _, properties, body in got]

    def depth(self, queue: str) -> int:
        """Return how many messages are ready on a queue."""
        return int(self.channel.queue_declare(queue, passive=True).method.message_count)

    def take(self, queue: str, count: int, deadline: float = 60) -> list[Sent]:
        """Wait for so many messages and take everything that is there."""
        wait_until(lambda: self.depth(queue) >= count, deadline, f"{count} messages on {queue}")
        taken: list[Sent] = []
        while True:
            method, properties, body = self.channel.basic_get(queue, auto_ack=True)
            if method is None:
                return taken
            taken.append(Sent(properties, body))

    def confirm(self, sent: Sent) -> None:
        """Say that a retry succeeded, as ServiceControl's consumers do."""
        headers = {
            "ServiceControl.Retry.Successful": "2026-05-04 13:00:00:000000 Z",
            "ServiceControl.Retry.UniqueMessageId": sent.headers[
                "ServiceControl.Retry.UniqueMessageId"
            ],
        }
        queue = sent.headers["ServiceControl.Retry.AcknowledgementQueue"]
        self.channel.basic_publish("", queue, b"", pika.BasicProperties(headers=headers))

    def fail_again(self, sent: Sent) -> None:
        """Put a retried message back on the error queue: it has failed once more."""
        headers = {**sent.headers, **failure_headers(self.orders)}
        headers["NServiceBus.TimeOfFailure"] = "2026-05-04 12:30:00:000000 Z"
        properties = pika.BasicProperties(
            message_id=sent.properties.message_id, delivery_mode=2, headers=headers
        )
        self.channel.basic_publish("", self.error, sent.body, properties)

    def _make_failure(self, queue: str) -> Sent:
        message_id = str(uuid4())
        headers = {
            "NServiceBus.MessageId": message_id,
            "NServiceBus.EnclosedMessageTypes": "Shop.PlaceOrder, Shop",
            "NServiceBus.ProcessingEndpoint": "Sales",
            "NServiceBus.ConversationId": str(uuid4()),
            "NServiceBus.FLRetries": "3",
            "Shop.Tenant": "north",
            "Shop.Amount": 12,
            "Shop.Nested": {"tags": ["a", 2, True]},
            **failure_headers(queue),
        }
        properties = pika.BasicProperties(
            message_id=message_id,
            correlation_id=message_id,
            content_type="application/json",
            delivery_mode=2,
            priority=4,
            timestamp=1777900000,
            type="Shop.PlaceOrder",
            reply_to="shop.replies",
            headers=headers,
        )
        return Sent(properties, b'{"order": "%s"}' % message_id.encode())

    def _make_payment(self) -> Sent:
        message_id = str(uuid4())
        properties = pika.BasicProperties(
            message_id=message_id,
            content_type="application/octet-stream",
            delivery_mode=2,
            type="Shop.Pay",
            headers={"Shop.Tenant": "south"},
        )
        return Sent(properties, b"\x00\xff" + message_id.encode())

    def _reject_one(self) -> None:
        wait_until(self._reject, 10)

    def _reject(self) -> bool:
        method, _, _ = self.channel.basic_get(self.payments)
        if method is not None:
            self.channel.basic_nack(method.delivery_tag, requeue=False)
        return method is not None


def failure_headers(queue: str) -> dict[str, Any]:
    """Return the headers NServiceBus puts on a message that failed on a queue."""
    return {
        "NServiceBus.FailedQ": queue,
        "NServiceBus.TimeOfFailure": NSB_TIME,
        "NServiceBus.ExceptionInfo.ExceptionType": EXCEPTION,
        "NServiceBus.ExceptionInfo.Message": "nothing left",
        "NServiceBus.ExceptionInfo.Source": "Shop",
        "NServiceBus.ExceptionInfo.StackTrace": STACK_TRACE,
        "NServiceBus.Retries": "2",
    }


@contextmanager
def opened_shop(url: str, name: Callable[..., str], kind: str) -> Iterator[Shop]:
    """Open a shop whose queues are of this kind (`classic` or `quorum`)."""
    connection = pika_connection(url)
    try:
        yield Shop(connection.channel(), name, kind)
    finally:
        connection.close()
