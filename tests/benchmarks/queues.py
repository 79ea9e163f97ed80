"""Queues of one scenario, under random names; deleted at its end."""

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

from tests.benchmarks.messages import make_messages
from tests.benchmarks.raw_line import RawLine, connect
from tests.support.waiting import wait_until

UNCONFIRMED = 500


class Queues:
    """Declares, fills and looks at queues of one kind (`classic` or `quorum`)."""

    def __init__(self, url: str, kind: str) -> None:
        self.url = url
        self.kind = kind
        self._connection = connect(url)
        self._channel = self._connection.channel()
        self._names: list[str] = []

    def declare(self, prefix: str) -> str:
        """Declare a durable queue of this kind; return its name."""
        name = self.remember(f"bench.{prefix}.{uuid4().hex[:12]}")
        self._channel.queue_declare(
            name, durable=True, auto_delete=False, arguments={"x-queue-type": self.kind}
        )
        return name

    def remember(self, name: str) -> str:
        """Delete this queue at the end, too, whoever declares it."""
        self._names.append(name)
        return name

    def depth(self, name: str) -> int:
        """Return how many messages are ready."""
        return int(self._channel.queue_declare(name, passive=True).message_count)

    def wait_depth(self, name: str, count: int, deadline: float) -> None:
        """Wait until so many messages are ready; fail if there are more."""
        wait_until(lambda: self.depth(name) >= count, deadline, f"{count} messages on {name}")
        if (found := self.depth(name)) != count:
            raise RuntimeError(f"{found} messages on {name} instead of {count}")

    def purge(self, name: str) -> None:
        """Drop what is ready."""
        self._channel.queue_purge(name)

    def fill(self, name: str, failed_on: str, count: int, size: int) -> None:
        """Put so many failed messages with bodies of this size on a queue."""
        line = RawLine(self.url)
        line.confirm()
        for message in make_messages(failed_on, count, size):
            line.publish(name, message.raw, message.body)
            line.settle(UNCONFIRMED)
        line.settle()
        line.close()

    def delete_all(self) -> None:
        """Delete every queue with all it holds."""
        for name in self._names:
            self._channel.queue_delete(name)
        self._connection.collect()


@contextmanager
def opened_queues(url: str, kind: str) -> Iterator[Queues]:
    """Give queues; whatever was declared is deleted afterwards."""
    queues = Queues(url, kind)
    try:
        yield queues
    finally:
        queues.delete_all()
