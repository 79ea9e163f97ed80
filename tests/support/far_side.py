"""Somebody else's client of the same broker: declares queues and looks at what arrived."""

from contextlib import suppress

import pika
import pika.exceptions

from tests.support.servers import pika_connection


class FarSide:
    """A pika connection, whose channel is replaced when the broker closes it."""

    def __init__(self, url: str) -> None:
        self._connection = pika_connection(url)
        self._channel = self._connection.channel()

    @property
    def channel(self) -> pika.adapters.blocking_connection.BlockingChannel:
        """Give an open channel."""
        if not self._channel.is_open:
            self._channel = self._connection.channel()
        return self._channel

    @property
    def version(self) -> tuple[int, ...]:
        """Give the broker's version."""
        said = self._connection._impl.server_properties["version"]  # noqa: SLF001 - told nowhere else
        return tuple(int(part) for part in said.split(".") if part.isdecimal())

    def declare(self, queue: str, *, durable: bool = True, **arguments: object) -> str:
        """Declare a queue; `x_max_length` stands for `x-max-length`."""
        named = {name.replace("_", "-"): value for name, value in arguments.items()}
        self.channel.queue_declare(queue, durable=durable, arguments=named)
        return queue

    def declares_alike(self, queue: str, *, durable: bool = True, **arguments: object) -> bool:
        """Say whether the queue exists with just these arguments, durable or not."""
        try:
            self.declare(queue, durable=durable, **arguments)
        except pika.exceptions.ChannelClosedByBroker:
            return False
        return True

    def publish(self, queue: str, count: int = 1) -> None:
        """Publish so many messages, and wait until the broker has them."""
        channel = self._connection.channel()
        channel.confirm_delivery()
        for number in range(count):
            channel.basic_publish("", queue, b"%d" % number)
        channel.close()

    def count(self, queue: str) -> int:
        """Return how many messages are ready."""
        answer = self.channel.queue_declare(queue, passive=True)
        return int(answer.method.message_count)

    def consume(self, queue: str) -> None:
        """Become a consumer that takes nothing in."""
        self.channel.basic_qos(prefetch_count=1)
        self.channel.basic_consume(queue, lambda *_: None)

    def close(self) -> None:
        """Close the connection."""
        with suppress(pika.exceptions.AMQPError):
            self._connection.close()
