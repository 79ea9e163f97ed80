"""Takes messages off one queue; when it closes, unacknowledged ones go back to the queue."""

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import takewhile
from time import monotonic
from typing import TypeVar

import amqp
from amqp import spec

from retrier.domain.wire import Delivery
from retrier.errors import BrokerUnavailable
from retrier.transport.rabbitmq.connection import BrokerConnection
from retrier.transport.rabbitmq.library import read_deliver

T = TypeVar("T")

ON_ITS_WAY = 0.1
"""Seconds without a message after which none is on its way, though the prefetch allows more."""
TRICKLE = 1.0
"""The most seconds to wait for what is on its way, if messages come one by one."""


class RabbitMQConsumer:
    """One consumer on one channel of its own connection; delivery tags belong to the channel."""

    def __init__(self, connection: BrokerConnection, queue: str, prefetch: int) -> None:
        """Consume an existing queue. Raises BrokerUnavailable, QueueSilent."""
        self._connection = connection
        self._queue = queue
        self._prefetch = prefetch
        self._is_consuming = False
        self._inbox: deque[Delivery] = deque()
        self._unsettled: dict[int, None] = {}
        """Tags of delivered messages that are not acknowledged, ascending."""
        connection.give(spec.Basic.Deliver, self._on_delivery)
        self._consumer = self._ask(lambda channel: self._consume(channel, prefetch))

    def receive(self, limit: int, timeout: float) -> list[Delivery]:
        """Return up to `limit` messages. Raises BrokerUnavailable. See the seam."""
        self._take_arrived(limit)
        deadline = monotonic() + timeout
        while not self._inbox and (left := deadline - monotonic()) > 0:
            self._connection.read(min(left, self._connection.tick))
            self._take_arrived(limit)
        return [self._inbox.popleft() for _ in range(min(limit, len(self._inbox)))]

    def ack(self, deliveries: Sequence[Delivery]) -> None:
        """Acknowledge these messages, with few frames. Raises BrokerUnavailable."""
        if len(deliveries) == 1:  # by far the most frequent with a worker
            tag = deliveries[0].tag
            if isinstance(tag, int) and tag in self._unsettled:
                self._ack([tag], multiple=False)
            return
        wanted = self._still_unsettled(deliveries)
        oldest = list(takewhile(wanted.__contains__, self._unsettled))
        if oldest:
            self._ack(oldest, multiple=True)
        for tag in sorted(wanted.difference(oldest)):
            self._ack([tag], multiple=False)

    def surely_holds(self) -> bool:
        """See the seam."""
        return self._connection.kept

    def put_back(self, deliveries: Sequence[Delivery]) -> None:
        """Hand these messages back to their queue. Raises BrokerUnavailable."""
        for tag in sorted(self._still_unsettled(deliveries)):
            self._reject(tag)

    def rest(self) -> bool:
        """Stop consuming, but stay connected, if nothing is unacknowledged. See the seam."""
        with suppress(BrokerUnavailable):
            self._ask(lambda channel: channel.basic_cancel(self._consumer))
            # Deliveries that the broker sent before it read the cancel came before its answer.
            return not (self._unsettled or self._inbox)
        return False

    def cease(self) -> list[Delivery]:
        """Consume no more; return what was not received. Raises BrokerUnavailable. See the seam.

        A quorum queue takes back what it has sent to a consumer that is cancelled meanwhile: it
        comes again after later ones, counted as one delivery more. With a full prefetch nothing is
        on its way. Else the broker does not tell, so it is waited for a moment.
        """
        deadline = monotonic() + (TRICKLE if self._is_consuming else 0)
        while len(self._unsettled) < self._prefetch and monotonic() < deadline:
            if not self._connection.read(ON_ITS_WAY):
                break
        self._ask(lambda channel: channel.basic_cancel(self._consumer))
        self._is_consuming = False
        left = list(self._inbox)
        self._inbox.clear()
        return left

    def resume(self, prefetch: int) -> None:
        """Consume again, after a rest or once it has ceased. Raises BrokerUnavailable.

        A prefetch applies to consumers made after it (the only kind of prefetch that quorum queues
        support): to change it is to cease and to resume.
        """
        if not self._connection.is_fit():
            # On a connection that broke meanwhile, a question would wait for the whole timeout.
            raise BrokerUnavailable("the connection of the consumer that rested is of no use")
        self._consumer = self._ask(lambda channel: self._consume(channel, prefetch))

    def keep_alive(self) -> None:
        """See the seam."""
        self._connection.keep_up()

    def close(self) -> None:
        """Drop the connection; never hangs, never raises."""
        self._connection.close()

    def _take_arrived(self, limit: int) -> None:
        self._connection.read_arrived(until=lambda: len(self._inbox) >= limit)
        self._connection.keep_alive()

    def _consume(self, channel: amqp.Channel, prefetch: int) -> str:
        self._prefetch = prefetch
        self._is_consuming = True
        channel.basic_qos(0, prefetch, a_global=False)
        return str(channel.basic_consume(self._queue))

    def _ask(self, question: Callable[[amqp.Channel], T]) -> T:
        return self._connection.ask(question, self._queue)

    def _on_delivery(self, arguments: bytes, raw: bytes, body: bytes) -> None:
        # Only store it: anything that reads the connection in here would call this again.
        tag, redelivered, key = read_deliver(arguments)
        self._unsettled[tag] = None
        self._inbox.append(
            Delivery(
                tag=tag,
                queue=self._queue,
                raw=raw,
                body=body,
                redelivered=redelivered,
                routing_key=key,
            )
        )

    def _ack(self, tags: Sequence[int], *, multiple: bool) -> None:
        self._connection.write_ack(tags[-1], multiple=multiple)
        self._forget(tags)

    def _reject(self, tag: int) -> None:
        self._ask(lambda channel: channel.basic_reject(tag, requeue=True))
        self._forget([tag])

    def _forget(self, tags: Sequence[int]) -> None:
        for tag in tags:
            del self._unsettled[tag]

    def _still_unsettled(self, deliveries: Sequence[Delivery]) -> set[int]:
        return {d.tag for d in deliveries if isinstance(d.tag, int) and d.tag in self._unsettled}
