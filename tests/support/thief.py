"""Somebody else's consumer, which takes everything off a queue and always comes back."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from threading import Event

import pika.exceptions

from tests.support.servers import pika_connection

LOOK = 0.05
"""Seconds: it is back before anybody could fill a queue that was declared anew."""


@contextmanager
def robbed(url: str, queue: str) -> Iterator[None]:
    """Let somebody take and acknowledge all that comes, also after the queue was deleted."""
    over = Event()
    with ThreadPoolExecutor(1) as other_side:
        robbing = other_side.submit(_rob, url, queue, over)
        try:
            yield
        finally:
            over.set()
            robbing.result()


def _rob(url: str, queue: str, over: Event) -> None:
    while not over.wait(LOOK):
        connection = pika_connection(url)
        with suppress(pika.exceptions.ChannelClosedByBroker):
            for _ in connection.channel().consume(queue, auto_ack=True, inactivity_timeout=LOOK):
                if over.is_set():
                    break
        connection.close()
