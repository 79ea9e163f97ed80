"""The processor's connections to the broker, and its progress: each wait is noted as such."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, cast

from retrier.clock import Clock
from retrier.domain.processor_work import (
    ForAlarm,
    ForBroker,
    ForConfirms,
    ForDatabase,
    ProgressNotes,
    Standstill,
    Wait,
    find_standstill,
)
from retrier.domain.wire import Delivery, Outcome, Outgoing
from retrier.errors import BrokerUnavailable, DatabaseUnavailable
from retrier.overlap import WhileInFlight, nothing_else
from retrier.transport.seam import Consumer, Publisher, Queues, Transport, TrialReport, Unsettled


class Progress:
    """Holds when something was last recorded, and what the processor waits for at present.

    One thread notes, any thread reads. The notes are one value that is replaced, so a reader needs
    no lock, whatever the processor hangs on. By default a turn is noted as waiting for the
    database; waits for the broker are noted by `waiting`.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._notes = ProgressNotes()

    @property
    def standstill(self) -> Standstill | None:
        """Why nothing was recorded for too long; None while the processor makes progress."""
        return find_standstill(self._notes, self._clock.monotonic())

    def begin(self) -> None:
        """Note that a turn begins: until it ends, there may be work to do."""
        now, since = self._clock.monotonic(), self._notes.since
        self._note(since=now if since is None else since, wait=ForDatabase(), waiting_since=now)

    def made(self) -> None:
        """Note that a commit brought a retry nearer to its end."""
        self._note(since=self._clock.monotonic(), loses_copies=False)

    def lost(self) -> None:
        """Note that copies did not come back: the batch waits for them, or is staged again."""
        self._note(loses_copies=True)

    def idle(self, is_any_staging: Callable[[], bool]) -> None:
        """Note that a turn found no work.

        A turn does not find what is paused or waits for its time, and that is no standstill. It
        does not find a batch that backs off because its copies vanish either, but there the
        standstill goes on (decision 0022).
        """
        if self._notes.loses_copies and is_any_staging():
            self._note(wait=None)
        else:
            self.rest()

    def rest(self) -> None:
        """Note that there is nothing to do: no work was found, or another process has the lease."""
        self._notes = ProgressNotes()

    @contextmanager
    def waiting(self, wait: Wait) -> Iterator[None]:
        """Note this wait for the time of the block; restore the previous one afterwards."""
        before = self._notes.wait
        self._note(wait=wait, waiting_since=self._clock.monotonic())
        try:
            yield
        finally:
            self._note(wait=before, waiting_since=self._clock.monotonic())

    def awaits(self, awaited: Unsettled) -> None:
        """Note what a publisher waits for: the end of an alarm, confirms, or the broker itself."""
        if awaited.blocked:
            self._note(wait=ForAlarm(awaited.why))
        else:
            queues = awaited.queues
            self._note(wait=ForConfirms(queues) if queues else ForBroker())

    def _note(self, **changes: object) -> None:
        self._notes = replace(self._notes, **changes)  # type: ignore[arg-type]  # fields by name


SERVERS = (BrokerUnavailable, DatabaseUnavailable)


def kind_of(error: Exception) -> type[Exception]:
    """Return the kind under which an error is logged: a server out of reach is always one kind."""
    return next((kind for kind in SERVERS if isinstance(error, kind)), type(error))


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

    def try_out(self, staging_queue: str) -> TrialReport:
        """See the seam."""
        with self._progress.waiting(ForBroker()):
            return self._inner.try_out(staging_queue)


class AttendedPublisher:
    """Notes what is not confirmed yet, each time the publisher calls `waiting`."""

    def __init__(self, inner: Publisher, progress: Progress) -> None:
        self._inner = inner
        self._progress = progress

    @property
    def awaited(self) -> Unsettled:
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
