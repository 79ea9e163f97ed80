"""The processor's connections to the broker: made when needed, thrown away together."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from retrier.domain.wire import Delivery
from retrier.transport.seam import Consumer, Publisher, Queues, Transport


class Broker:
    """Publisher and staging consumer of the processor.

    After any error both are dropped, with all delivery tags: what is not recorded is derived
    again from the database.
    """

    def __init__(self, transport: Transport, staging_queue: str) -> None:
        self.transport = transport
        self._staging_queue = staging_queue
        self._declared = False
        self._publisher: Publisher | None = None
        self._consumer: Consumer | None = None

    @property
    def publisher(self) -> Publisher:
        """The publisher, connected and probed.

        Raises BrokerUnavailable, StagingQueueUnusable.
        """
        if self._publisher is None:
            self._declare()
            self._publisher = self.transport.publisher(self._staging_queue)
        return self._publisher

    def consumer(self, prefetch: int) -> Consumer:
        """Return the consumer of the staging queue, opening it at the first call.

        Raises BrokerUnavailable, StagingQueueUnusable.
        """
        if self._consumer is None:
            self._declare()
            self._consumer = self.transport.consumer(self._staging_queue, prefetch)
        return self._consumer

    def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        """Acknowledge copies; without a consumer they have gone back. Raises BrokerUnavailable."""
        if self._consumer is not None:
            self._consumer.ack(deliveries)

    def close_consumer(self) -> None:
        """Stop consuming: the staging queue is consumed only while a batch is Forwarding."""
        if self._consumer is not None:
            self._consumer.close()
        self._consumer = None

    def drop(self) -> None:
        """Throw both connections away; unacknowledged copies go back to the staging queue."""
        self.close_consumer()
        if self._publisher is not None:
            self._publisher.close()
        self._publisher = None
        self._declared = False

    def reach(self) -> None:
        """Connect, and let go again. Raises BrokerUnavailable."""
        with self.queues():
            pass

    @contextmanager
    def queues(self) -> Iterator[Queues]:
        """Look at queues on a connection of its own: that call hangs on a blocked one."""
        queues = self.transport.queues()
        try:
            yield queues
        finally:
            queues.close()

    def _declare(self) -> None:
        """Make sure that the staging queue is there: somebody, or we, may have deleted it."""
        if self._declared:
            return
        with self.queues() as queues:
            queues.declare_staging_queue(self._staging_queue)
        self._declared = True
