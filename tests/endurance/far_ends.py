"""Both far ends of an endurance run: who puts failed messages there, and who gets them back."""

import random
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import pika
from pika.adapters.blocking_connection import BlockingChannel

from retrier.domain.headers import RETRY_ID
from tests.support.servers import pika_connection
from tests.support.shop import Sent, Shop, failure_headers

GROUPS = ("Shop.OutOfStock", "Shop.NoSuchOrder", "Shop.CardRefused", "Shop.TooLate")
MOST_FAILURES = 4
"""So often more a message fails at most, before its retry succeeds."""
CONFIRMED = 0.5
"""Share of the retries that succeed and are confirmed; the others stay pending."""
CHUNK = 20
PREFETCH = 200

Allowance = Callable[[], int]


def consume(
    url: str,
    queue: str,
    stop: threading.Event,
    handle: Callable[[BlockingChannel, Sent], None],
) -> None:
    """Handle and acknowledge what comes, until told to stop."""
    connection = pika_connection(url)
    channel = connection.channel()
    channel.basic_qos(prefetch_count=PREFETCH)
    for method, properties, body in channel.consume(queue, inactivity_timeout=0.1):
        if method is not None:
            handle(channel, Sent(properties, body))
            channel.basic_ack(method.delivery_tag)
        if stop.is_set():
            break
    connection.close()


def make_failure(queue: str, dice: random.Random) -> Sent:
    """Make a message that failed on a queue for one of a few reasons."""
    message_id = str(uuid4())
    exception = dice.choice(GROUPS)
    headers: dict[str, Any] = {
        "NServiceBus.MessageId": message_id,
        "NServiceBus.ProcessingEndpoint": "Sales",
        **failure_headers(queue),
        "NServiceBus.ExceptionInfo.ExceptionType": exception,
        "NServiceBus.ExceptionInfo.StackTrace": f"{exception}\n   at Shop.Sell() in Sell.cs:line 1",
    }
    properties = pika.BasicProperties(message_id=message_id, delivery_mode=2, headers=headers)
    return Sent(properties, b'{"order": "%s"}' % message_id.encode())


@dataclass(slots=True, kw_only=True)
class Producer:
    """Puts failed messages on the error queue, as many as it is allowed by now.

    What is in `failed` the broker has confirmed: from there on none of it may be lost.
    """

    url: str
    shop: Shop
    count: int
    allowance: Allowance
    dice: random.Random
    failed: set[str] = field(default_factory=set)

    def run(self, stop: threading.Event) -> None:
        """Publish until all are there; with each chunk confirmed before the next."""
        connection = pika_connection(self.url)
        channel = connection.channel()
        channel.confirm_delivery()
        while len(self.failed) < self.count and not stop.is_set():
            room = min(CHUNK, self.allowance() - len(self.failed))
            for _ in range(max(0, room)):
                self._publish_one(channel)
            # Also keeps the connection's heartbeat going.
            connection.process_data_events(time_limit=self.dice.uniform(0, 0.1))
        connection.close()

    def _publish_one(self, channel: BlockingChannel) -> None:
        sent = make_failure(self.shop.orders, self.dice)
        channel.basic_publish("", self.shop.error, sent.body, sent.properties)
        self.failed.add(sent.properties.message_id)


@dataclass(slots=True, kw_only=True)
class Consumer:
    """Gets what is retried, handles each retry once, and lets most of it fail some more times.

    `copies` counts what came, by retry id: the second copy of a retry is the duplicate that a
    consumer which remembers the ids drops. `retried` are the messages, `failed_again` how often
    each was put back on the error queue.
    """

    url: str
    shop: Shop
    dice: random.Random
    came: int = 0
    copies: Counter[str] = field(default_factory=Counter)
    message_of: dict[str, str] = field(default_factory=dict)
    failed_again: Counter[str] = field(default_factory=Counter)
    _failures: dict[str, int] = field(default_factory=dict)

    def run(self, stop: threading.Event) -> None:
        """Consume until told to stop."""
        consume(self.url, self.shop.orders, stop, self._handle)

    def _handle(self, channel: BlockingChannel, sent: Sent) -> None:
        retry_id, message_id = sent.headers[RETRY_ID], sent.properties.message_id
        self.came += 1
        self.copies[retry_id] += 1
        if self.copies[retry_id] > 1:
            return
        self.message_of[retry_id] = message_id
        wanted = self._failures.setdefault(message_id, self.dice.randint(0, MOST_FAILURES))
        if self.failed_again[message_id] < wanted:
            self.failed_again[message_id] += 1
            self._fail_again(channel, sent)
        elif self.dice.random() < CONFIRMED:
            self._confirm(channel, sent)

    def _fail_again(self, channel: BlockingChannel, sent: Sent) -> None:
        headers: Mapping[str, Any] = {**failure_headers(self.shop.orders), **sent.headers}
        exception = {"NServiceBus.ExceptionInfo.ExceptionType": self.dice.choice(GROUPS)}
        properties = pika.BasicProperties(
            message_id=sent.properties.message_id, delivery_mode=2, headers={**headers, **exception}
        )
        channel.basic_publish("", self.shop.error, sent.body, properties)

    def _confirm(self, channel: BlockingChannel, sent: Sent) -> None:
        unique_id = "ServiceControl.Retry.UniqueMessageId"
        headers = {
            "ServiceControl.Retry.Successful": "2030-05-04 13:00:00:000000 Z",
            unique_id: sent.headers[unique_id],
        }
        queue = sent.headers["ServiceControl.Retry.AcknowledgementQueue"]
        channel.basic_publish("", queue, b"", pika.BasicProperties(headers=headers))
