"""A plain Kombu program on the embedded broker, as somebody else would write one.

Arguments: `publish URL QUEUE COUNT NAME`, `consume URL QUEUE` or `hold URL QUEUE COUNT LEASE`.

`publish` publishes failed messages and ends. `consume` says `consuming`, then the id of each message
it acknowledges, until it is told a line. `hold` takes messages, says `holding`, and acknowledges all
of them when it is told a line.
"""

import sys
from collections.abc import Callable
from contextlib import suppress
from select import select

from kombu import Connection, Consumer, Message, Producer, Queue

import retrier.transport.embedded  # noqa: F401 - registers the scheme with Kombu

BREATH = 0.1
"""Seconds without a message after which a consumer listens to what it is told."""


def failed_headers(queue: str) -> dict[str, str]:
    """Return the headers of a message that failed."""
    return {
        "Retrier.FailedQueue": queue,
        "Retrier.TimeOfFailure": "2024-05-01T11:58:03.123456+00:00",
        "Retrier.Exception.Type": "ValueError",
        "Retrier.Exception.Message": "no such order",
    }


def publish(connection: Connection, queue: str, count: str, name: str) -> None:
    """Publish so many failed messages with ids `NAME-0`, `NAME-1` ..."""
    producer = Producer(connection)
    for number in range(int(count)):
        producer.publish(
            {"order": number},
            routing_key=queue,
            headers=failed_headers("orders"),
            message_id=f"{name}-{number}",
        )


def consume(connection: Connection, queue: str) -> None:
    """Consume until told to stop."""

    def handle(_body: object, message: Message) -> None:
        say(str(message.properties["message_id"]))
        message.ack()

    with Consumer(connection, [Queue(queue)], callbacks=[handle]) as consumer:
        consumer.qos(prefetch_count=10)
        say("consuming")
        while not select([sys.stdin], [], [], 0)[0]:
            with suppress(TimeoutError):
                connection.drain_events(timeout=BREATH)


def hold(connection: Connection, queue: str, count: str, lease: str) -> None:
    """Take messages and keep them."""
    connection.transport_options = {"lease": float(lease)}
    held: list[Message] = []
    with Consumer(connection, [Queue(queue)], callbacks=[lambda _, message: held.append(message)]):
        while len(held) < int(count):
            connection.drain_events(timeout=10)
        say("holding")
        sys.stdin.readline()
        for message in held:
            message.ack()


def say(word: str) -> None:
    """Tell whoever started this program."""
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


COMMANDS: dict[str, Callable[..., None]] = {"publish": publish, "consume": consume, "hold": hold}

if __name__ == "__main__":
    command, url, *arguments = sys.argv[1:]
    with Connection(url) as opened:
        COMMANDS[command](opened, *arguments)
