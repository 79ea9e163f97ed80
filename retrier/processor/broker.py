"""The processor's connections to the broker; each wait for the broker is noted as such."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, cast

from retrier.domain.processor_work import ForBroker, ForDatabase
from retrier.domain.wire import Delivery, Outcome, Outgoing
from retrier.errors import BrokerUnavailable
from retrier.overlap import WhileInFlight, nothing_else
from retrier.processor.progress import Progress
from retrier.transport.seam import Awaited, Consumer, Publisher, Queues, Transport, Trial


class Broker:
    """The processor's publisher, consumer of the staging queue, and look at queues.

    After an error all are dropped, and all delivery tags with them: what is not recorded is
    derived again from the database.
    """

    def __init__(
        self, transport: Transport, staging_queue: str, probe: Callable[[], Outgoing]
    ) -> None:
        """Connect to nothing yet; `probe` makes the message that each publisher sends first."""
        self.transport = transport
        self._staging_queue = staging_queue
        self._probe = probe
        self._declared = False
        self._publisher: Publisher | None = None
        self._consumer: Consumer | None = None
        self._resting: Consumer | None = None
        """A consumer that stays connected without consuming, until the next batch."""
        self._queues: Queues | None = None

    @property
    def publisher(self) -> Publisher:
        """The publisher, connected and probed.

        Raises BrokerUnavailable, StagingQueueUnusable, LeaseLost, DatabaseUnavailable.
        """
        if self._publisher is None:
            self._declare()
            self._publisher = self.transport.publisher(self._probe())
        return self._publisher

    @property
    def queues(self) -> Queues:
        """The look at queues, on its own connection: on one that an alarm blocks it would hang.

        Raises BrokerUnavailable.
        """
        if self._queues is None:
            self._queues = self.transport.queues()
        return self._queues

    def consumer(self, prefetch: int) -> Consumer:
        """Return the consumer of the staging queue, opening it at the first call.

        Raises BrokerUnavailable, StagingQueueUnusable.
        """
        if self._consumer is None:
            self._declare()
            self._consumer = self._wake(prefetch) or self.transport.consumer(
                self._staging_queue, prefetch
            )
        return self._consumer

    def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        """Acknowledge copies; closing the consumer has returned them. Raises BrokerUnavailable."""
        if self._consumer is not None:
            self._consumer.ack(deliveries)

    def rest_consumer(self) -> None:
        """Stop consuming: the staging queue is consumed only while a batch is in Forwarding."""
        consumer, self._consumer = self._consumer, None
        if consumer is None:
            return
        if consumer.rest():
            self._resting = consumer
        else:
            consumer.close()

    def keep_alive(self) -> None:
        """Send heartbeats on all idle connections; a broken one is replaced at its next use."""
        for connection in (self._publisher, self._resting, self._queues):
            if connection is not None:
                connection.keep_alive()

    def drop(self) -> None:
        """Throw all connections away; unacknowledged copies go back to the staging queue."""
        for connection in (self._consumer, self._resting, self._publisher, self._queues):
            if connection is not None:
                connection.close()
        self._consumer = self._resting = self._publisher = self._queues = None
        self._declared = False

    def reach(self) -> None:
        """Connect and disconnect, to see that the broker is there. Raises BrokerUnavailable."""
        self.transport.queues().close()

    def _wake(self, prefetch: int) -> Consumer | None:
        resting, self._resting = self._resting, None
        if resting is None:
            return None
        with suppress(BrokerUnavailable):
            resting.resume(prefetch)
            return resting
        resting.close()
        return None

    def _declare(self) -> None:
        """Declare the staging queue once after each `drop`: it may have been deleted."""
        if not self._declared:
            self.queues.declare_staging_queue(self._staging_queue)
        self._declared = True


class AttendedTransport:
    """A transport whose publishers, consumers and queues note each wait for the broker."""

    def __init__(self, inner: Transport, progress: Progress) -> None:
        self._inner = inner
        self._progress = progress
        self.capabilities = inner.capabilities
        self.codec = inner.codec
        self.user = inner.user
        self.place = inner.place

    def publisher(self, probe: Outgoing | None = None) -> Publisher:
        """See the seam."""
        with self._progress.waiting(ForBroker()):
            return AttendedPublisher(self._inner.publisher(probe), self._progress)

    def consumer(self, queue: str, prefetch: int) -> Consumer:
        """See the seam."""
        with self._progress.waiting(ForBroker()):
            inner = self._inner.consumer(queue, prefetch)
        return cast("Consumer", _Attended(inner, self._progress))

    def queues(self) -> Queues:
        """See the seam."""
        with self._progress.waiting(ForBroker()):
            inner = self._inner.queues()
        return cast("Queues", _Attended(inner, self._progress))

    def try_out(self, staging_queue: str) -> Trial:
        """See the seam."""
        with self._progress.waiting(ForBroker()):
            return self._inner.try_out(staging_queue)


class AttendedPublisher:
    """Notes what is not confirmed yet, each time the publisher calls `waiting`."""

    def __init__(self, inner: Publisher, progress: Progress) -> None:
        self._inner = inner
        self._progress = progress

    @property
    def awaited(self) -> Awaited:
        """See the seam."""
        return self._inner.awaited

    def publish(
        self,
        messages: Iterable[Outgoing],
        waiting: Callable[[], None],
        while_in_flight: WhileInFlight = nothing_else,
    ) -> tuple[Outcome, ...]:
        """See the seam."""

        def attend() -> None:
            waiting()
            self._progress.awaits(self._inner.awaited)

        def do_in_between() -> bool:
            with self._progress.waiting(ForDatabase()):
                return while_in_flight()

        with self._progress.waiting(ForBroker()):
            return self._inner.publish(messages, attend, do_in_between)

    def keep_alive(self) -> None:
        """See the seam."""
        self._inner.keep_alive()

    def close(self) -> None:
        """See the seam."""
        self._inner.close()


class _Attended:
    """A consumer or a look at queues; each call is noted as a wait for the broker."""

    def __init__(self, inner: Consumer | Queues, progress: Progress) -> None:
        self._inner = inner
        self._progress = progress

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._inner, name)

        def ask(*arguments: Any) -> Any:
            with self._progress.waiting(ForBroker()):
                return method(*arguments)

        return ask
