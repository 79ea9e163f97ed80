"""The same shop on Redis, as a plain Kombu program."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import kombu

from tests.support.embedded_shop import EmbeddedShop

UntypedConnection: Any = kombu.Connection
UntypedQueue: Any = kombu.Queue
UntypedExchange: Any = kombu.Exchange
"""Any, because Kombu has types for half of itself only."""


class RedisShop(EmbeddedShop):
    """Queues of one test on Redis."""

    def __init__(self, connection: Any, name: Callable[[str], str]) -> None:
        self.connection = connection
        super().__init__(connection, name)

    def declare(self, queue: str) -> str:
        """Declare a queue with an exchange of its name, as Celery does: that leaves a trace."""
        UntypedQueue(queue, UntypedExchange(queue), queue, channel=self.channel).declare()
        return queue

    def depth(self, queue: str) -> int:
        """Return how many messages are ready on a queue."""
        return int(self.connection.default_channel._size(queue))  # noqa: SLF001 - an empty list is no key: it says 404


def clean(connection: Any, mark: str) -> None:
    """Remove every key and every queue with this text in its name."""
    client = connection.default_channel.client
    for key in client.scan_iter(f"*{mark}*"):
        client.delete(key)
    for name in ("_retrier:queues", "_retrier:staging"):
        for member in client.sscan_iter(name, f"*{mark}*"):
            client.srem(name, member)


@contextmanager
def opened_redis_shop(url: str, name: Callable[[str], str], mark: str) -> Iterator[RedisShop]:
    """Open a shop on Redis. `mark` is in all of its names; nothing with it is left in the end."""
    with UntypedConnection(url) as connection:
        yield RedisShop(connection, name)
        clean(connection, mark)
