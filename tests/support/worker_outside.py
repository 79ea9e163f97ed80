"""The other side of a worker: plain clients that put messages on queues and see what comes out."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

import pika
from amqp.exceptions import NotFound
from kombu import Connection, Exchange, Queue

import retrier.transport.embedded  # noqa: F401 - registers the scheme with Kombu
from tests.support.far_side import FarSide
from tests.support.waiting import wait_until

DEADLINE = 15.0
UntypedConnection: Any = Connection
UntypedQueue: Any = Queue
UntypedExchange: Any = Exchange


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """A message as a plain client sees it. `properties` has only what is set."""

    body: bytes
    headers: Mapping[str, Any] = field(default_factory=dict)
    properties: Mapping[str, Any] = field(default_factory=dict)


class Outside(Protocol):
    """A client of one broker."""

    def declare(self, queue: str, **arguments: object) -> str:
        """Declare a queue of the kind under test."""
        ...

    def delete(self, queue: str) -> None:
        """Delete a queue with all it holds."""
        ...

    def put(self, queue: str, body: bytes, headers: Mapping[str, Any], **properties: Any) -> None:
        """Publish a message."""
        ...

    def count(self, queue: str) -> int:
        """Return how many messages are ready."""
        ...

    def take(self, queue: str) -> Letter | None:
        """Take a message off a queue, and acknowledge it."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


def take_all(outside: Outside, queue: str) -> list[Letter]:
    """Take all that is on a queue."""
    return list(iter(lambda: outside.take(queue), None))


def take_within(outside: Outside, queue: str, deadline: float = DEADLINE) -> Letter:
    """Wait for a message and take it."""
    wait_until(lambda: outside.count(queue), deadline, f"a message on {queue}")
    letter = outside.take(queue)
    assert letter is not None
    return letter


class RabbitMQOutside:
    """A pika client; its queues are of one kind."""

    def __init__(self, url: str, kind: str) -> None:
        self._far = FarSide(url)
        self._kind = kind

    def declare(self, queue: str, **arguments: Any) -> str:
        return self._far.declare(queue, x_queue_type=self._kind, **arguments)

    def delete(self, queue: str) -> None:
        self._far.channel.queue_delete(queue)

    def put(self, queue: str, body: bytes, headers: Mapping[str, Any], **properties: Any) -> None:
        made = pika.BasicProperties(headers=dict(headers) or None, **properties)
        self._far.channel.basic_publish("", queue, body, made)

    def count(self, queue: str) -> int:
        return self._far.count(queue)

    def take(self, queue: str) -> Letter | None:
        method, properties, body = self._far.channel.basic_get(queue, auto_ack=True)
        if method is None:
            return None
        found = {name: value for name, value in vars(properties).items() if value is not None}
        headers = found.pop("headers", {})
        return Letter(body=body, headers=headers, properties=found)

    def close(self) -> None:
        self._far.close()


class EmbeddedOutside:
    """A Kombu client of the embedded broker."""

    def __init__(self, url: str) -> None:
        self._connection = UntypedConnection(url)
        self._channel = self._connection.channel()

    def declare(self, queue: str, **_arguments: object) -> str:
        self._channel.queue_declare(queue)
        return queue

    def delete(self, queue: str) -> None:
        self._channel.queue_delete(queue)

    def put(self, queue: str, body: bytes, headers: Mapping[str, Any], **properties: Any) -> None:
        if "expiration" in properties:
            properties["expiration"] = int(properties["expiration"]) / 1000  # as Kombu wants it
        self._connection.Producer().publish(
            body,
            routing_key=queue,
            headers=dict(headers),
            content_type=properties.pop("content_type", "application/json"),
            content_encoding="binary",
            **properties,
        )

    def count(self, queue: str) -> int:
        with suppress(NotFound):
            return int(self._channel.queue_declare(queue, passive=True).message_count)
        return 0

    def take(self, queue: str) -> Letter | None:
        message = self._channel.basic_get(queue, no_ack=True)
        if message is None:
            return None
        properties = {**message.properties, "content_type": message.content_type}
        body = message.body.encode() if isinstance(message.body, str) else bytes(message.body)
        return Letter(body=body, headers=message.headers, properties=properties)

    def close(self) -> None:
        self._connection.close()


class RedisOutside(EmbeddedOutside):
    """A Kombu client of Redis."""

    def declare(self, queue: str, **_arguments: object) -> str:
        # A new connection: one that has made a binding before does not look whether it is still there.
        with self._connection.clone() as connection:
            channel = connection.channel()
            UntypedQueue(queue, UntypedExchange(queue), queue, channel=channel).declare()
        return queue

    def delete(self, queue: str) -> None:
        """Delete every key of the queue, and those of Retrier's."""
        client = self._channel.client
        for key in client.scan_iter(f"*{queue}*"):
            client.delete(key)
        client.srem("_retrier:queues", queue)

    def count(self, queue: str) -> int:
        # An empty list is no key: a passive declaration says 404.
        return int(self._channel._size(queue))  # noqa: SLF001
