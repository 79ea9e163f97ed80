"""The same shop on the embedded broker, as a plain Kombu program: it fails, is retried, confirms."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from queue import Empty
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

from amqp.exceptions import NotFound
from kombu import Connection, Message, Producer, Queue

import retrier.transport.embedded  # noqa: F401 - registers the scheme with Kombu
from tests.support.shop import failure_headers
from tests.support.waiting import wait_until

OF_THE_TRANSPORT = ("delivery_info", "delivery_tag", "body_encoding", "delivery_count")


@dataclass(frozen=True, slots=True)
class KombuSent:
    """One message as it is on a queue."""

    properties: SimpleNamespace
    body: bytes

    @property
    def headers(self) -> dict[str, Any]:
        return dict(self.properties.headers)


class EmbeddedShop:
    """Queues of one test on an embedded broker; the counterpart of Shop."""

    def __init__(self, connection: Connection, name: Callable[..., str]) -> None:
        self.channel = connection.default_channel
        self.producer = Producer(self.channel)
        self.error = self.declare(name("error"))
        self.orders = self.declare(name("orders"))

    def declare(self, queue: str) -> str:
        """Declare a queue."""
        Queue(queue)(self.channel).queue_declare()
        return queue

    def delete(self, queue: str) -> None:
        """Delete a queue with all it holds."""
        self.channel.queue_delete(queue)

    def fail(self, count: int = 1, *, queue: str | None = None) -> dict[str, KombuSent]:
        """Put failed messages on the error queue; return them by message id."""
        failed = [_make_failure(queue or self.orders) for _ in range(count)]
        for sent in failed:
            self._publish(self.error, sent)
        return {sent.properties.message_id: sent for sent in failed}

    def put_nonsense(self) -> None:
        """Put a message on the error queue that does not say where it failed."""
        self.put({}, b"?")

    def put(self, headers: Mapping[str, Any], body: bytes) -> None:
        """Put a message with these headers on the error queue."""
        self._publish(self.error, KombuSent(SimpleNamespace(headers=dict(headers)), body))

    def depth(self, queue: str) -> int:
        """Return how many messages are ready on a queue; 0 where there is none."""
        try:
            return int(self.channel.queue_declare(queue, passive=True).message_count)
        except NotFound:
            return 0

    def take(self, queue: str, count: int, deadline: float = 60) -> list[KombuSent]:
        """Wait for so many messages and take everything that is there."""
        wait_until(lambda: self.depth(queue) >= count, deadline, f"{count} messages on {queue}")
        taken = []
        while (message := self._get(queue)) is not None:
            taken.append(_as_sent(message))
            message.ack()
        return taken

    def confirm(self, sent: KombuSent) -> None:
        """Say that a retry succeeded, as ServiceControl's consumers do."""
        headers = {
            "ServiceControl.Retry.Successful": "2026-05-04 13:00:00:000000 Z",
            "ServiceControl.Retry.UniqueMessageId": sent.headers[
                "ServiceControl.Retry.UniqueMessageId"
            ],
        }
        queue = sent.headers["ServiceControl.Retry.AcknowledgementQueue"]
        self._publish(queue, KombuSent(SimpleNamespace(headers=headers), b""))

    def fail_again(self, sent: KombuSent) -> None:
        """Put a retried message back on the error queue: it has failed once more."""
        headers = {**sent.headers, **failure_headers(self.orders)}
        headers["NServiceBus.TimeOfFailure"] = "2026-05-04 12:30:00:000000 Z"
        properties = SimpleNamespace(message_id=sent.properties.message_id, headers=headers)
        self._publish(self.error, KombuSent(properties, sent.body))

    def _publish(self, queue: str, sent: KombuSent) -> None:
        self.producer.publish(sent.body, routing_key=queue, **vars(sent.properties))

    def _get(self, queue: str) -> Message | None:
        try:
            message: Message | None = Queue(queue)(self.channel).get()
        except Empty:
            return None
        return message


def _make_failure(queue: str) -> KombuSent:
    message_id = str(uuid4())
    headers: Mapping[str, Any] = {
        "NServiceBus.MessageId": message_id,
        "NServiceBus.EnclosedMessageTypes": "Shop.PlaceOrder, Shop",
        "NServiceBus.ProcessingEndpoint": "Sales",
        "Shop.Tenant": "north",
        "Shop.Nested": {"tags": ["a", 2, True, None]},
        **failure_headers(queue),
    }
    properties = SimpleNamespace(
        message_id=message_id,
        correlation_id=message_id,
        content_type="application/json",
        content_encoding="binary",
        delivery_mode=2,
        priority=4,
        type="Shop.PlaceOrder",
        reply_to="shop.replies",
        headers=dict(headers),
    )
    return KombuSent(properties, b'{"order": "%s"}' % message_id.encode())


def _as_sent(message: Message) -> KombuSent:
    kept = {name: each for name, each in message.properties.items() if name not in OF_THE_TRANSPORT}
    body = message.body if isinstance(message.body, bytes) else message.body.encode()
    properties = SimpleNamespace(
        content_type=message.content_type,
        content_encoding=message.content_encoding,
        headers=dict(message.headers),
        **kept,
    )
    return KombuSent(properties, body)


@contextmanager
def opened_embedded_shop(url: str) -> Iterator[EmbeddedShop]:
    """Open a shop on an embedded broker."""
    with Connection(url) as connection:
        yield EmbeddedShop(connection, lambda prefix: prefix)
