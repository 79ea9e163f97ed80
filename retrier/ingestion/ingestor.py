"""The loop of one error queue: look at it, receive a batch, read it, have it recorded, acknowledge it.

A queue is inspected without a delivery, which would count against a delivery limit.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Protocol

from retrier.clock import Clock
from retrier.domain.failed_message import Noteworthy, Received
from retrier.domain.recording import Recorded
from retrier.domain.values import dataclass
from retrier.domain.wire import Delivery
from retrier.errors import (
    BrokerUnavailable,
    DataRefused,
    ErrorQueueMissing,
    ErrorQueueUnusable,
    RetrierError,
)
from retrier.events.event import Emit
from retrier.events.ingestion import (
    BatchAcked,
    BatchReceived,
    BatchStored,
    ErrorQueueDoubted,
    ErrorQueueGone,
    ErrorQueueOpened,
    IngestionPaused,
    IngestionResumed,
    IngestionStarted,
    StoredAlone,
)
from retrier.ingestion.parsing import QueueMapping, Reading, next_prefetch, refused_import
from retrier.overlap import WhileInFlight, is_sure, nothing_else
from retrier.transport.seam import (
    USUAL_DELIVERY_LIMIT,
    Consumer,
    CountsReceives,
    DeliveryLimit,
    KnowsNames,
    QueueLook,
    Queues,
    Transport,
)


class Record(Protocol):
    """Stores a batch in one transaction."""

    def __call__(
        self,
        received: Sequence[Received],
        *,
        while_in_flight: WhileInFlight = nothing_else,
        make_sure: Callable[[], None] = is_sure,
    ) -> Recorded:
        """Store it; return the result. Raises DatabaseUnavailable, and DataRefused.

        `while_in_flight` does one small piece of other work and returns whether there is more. Call
        it while waiting for the database. `make_sure` raises if the messages may have been handed to
        another process meanwhile. Call it when nothing is waited for any more.
        """
        ...


Probe = Callable[[], None]
"""Writes something to the database. Raises DatabaseUnavailable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usable:
    """It may be ingested. `unseen`: the broker does not reveal whether it dead-letters."""

    look: QueueLook
    doubt: str | None  # what a person should look at, if anything
    unseen: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """It does not exist."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unusable:
    """Nothing of it is ingested before a person has changed something."""

    reason: str


Inspection = Usable | Missing | Unusable


def admit(
    transport: Transport, mapping: QueueMapping, *, declare_missing: bool, judging: bool
) -> str | None:
    """Return what is doubtful about an error queue, if anything, or raise ErrorQueueUnusable.

    `judging` as for `inspect`. A missing queue is declared, if that is wanted. Raises
    ErrorQueueMissing, BrokerUnavailable.
    """
    queues = transport.queues()
    try:
        if declare_missing:
            queues.declare_error_queue(mapping.queue)
        found = inspect(queues, mapping, judging=judging)
    finally:
        queues.close()
    match found:
        case Usable(doubt=doubt):
            return doubt
        case Missing(reason=reason):
            raise ErrorQueueMissing(reason)
        case Unusable(reason=reason):
            raise ErrorQueueUnusable(reason)


def inspect(queues: Queues, mapping: QueueMapping, *, judging: bool = True) -> Inspection:
    """Look at an error queue. Without `judging` a work queue is taken as it is.

    Raises BrokerUnavailable.
    """
    queue = mapping.queue
    look = queues.look(queue)
    if look is None:
        wrong = queues.why_misnamed(queue) if isinstance(queues, KnowsNames) else None
        advice = wrong or "declare it, or set ingestion.declare_missing"
        return Missing(reason=f"the error queue {queue} does not exist: {advice}")
    reason = queues.why_not_ingestible(queue)
    if reason is not None:
        return Unusable(reason=reason)
    if not judging or mapping.take_from_work_queue:
        return Usable(look=look, doubt=None)
    by = "a redrive policy" if isinstance(queues, CountsReceives) else "a dead-letter exchange"
    return _judge(queue, look, by, dead_letters=queues.dead_letters(queue))


def _judge(queue: str, look: QueueLook, by: str, *, dead_letters: bool | None) -> Inspection:
    """Refuse a queue only where both signs of a work queue are seen; one is a warning.

    Consumers have no names here: those of our own other instances are counted as well. To refuse
    one instance too many loses nothing, and names the way out (decision 0036).
    """
    others = "1 consumer" if look.consumers == 1 else f"{look.consumers} consumers"
    match dead_letters, look.consumers > 0:
        case True, True:
            return Unusable(
                reason=f"{queue} has {by} and {others}: it looks like a work "
                "queue. Retrier would take its messages. If it should, or if the consumers are "
                "other instances of Retrier, set take_from_work_queue: true at its entry of "
                "ingestion.error_queues"
            )
        case True, False:
            doubt: str | None = (
                f"{queue} has {by} of its own, as work queues have: "
                "Retrier takes every message that arrives there"
            )
        case _, True:
            doubt = (
                f"{queue} has {others} already: unless they are other instances of Retrier, they "
                "and Retrier take messages from each other"
            )
        case _:
            doubt = None
    return Usable(look=look, doubt=doubt, unseen=dead_letters is None)


def describe_limit(queues: Queues, queue: str, limit: DeliveryLimit) -> str:
    """Return what happens to what comes back too often to an error queue, in its broker's words."""
    if isinstance(queues, CountsReceives) and (told := queues.describe_redrive(queue)) is not None:
        return told
    return describe_delivery_limit(limit, dead_letters=queues.dead_letters(queue))


def describe_delivery_limit(limit: DeliveryLimit, *, dead_letters: bool | None) -> str:
    """Return what happens on an error queue with a delivery limit, and where nobody sees it.

    A window comes back at each crash and each lost connection, and the database may be away.
    """
    if limit.most is None:
        told, often = "it may have a delivery limit", "too often"
    else:
        told = f"its delivery limit is {limit.most}"
        often = f"more than {max(limit.most, 0)} times"
        if limit.most < USUAL_DELIVERY_LIMIT:
            told += f", below the {USUAL_DELIVERY_LIMIT} that is usual"
    match dead_letters:
        case True:
            becomes = "goes to its dead-letter exchange"
        case False:
            becomes = "is dropped, because its arguments name no dead-letter exchange"
        case _:
            becomes = "is dropped, unless it has a dead-letter exchange"
    return f"{told}: what comes back {often} {becomes}"


FIRST_TIMEOUT = 0.05
"""Seconds that the first turn waits for messages: a queue that has none is ready at once.

Messages may be on their way for longer. So this look does not say that the queue is empty.
"""
RECEIVE_TIMEOUT = 1.0
"""Seconds to wait on an empty queue before the stop event is checked again."""

BACK_OFF = (1.0, 2.0, 4.0, 8.0, 10.0)
"""Seconds to wait after the first failure in a row, the second, ...; the last one repeats."""

LOOK_FOR_MISSING = 3.0
"""Seconds between two looks for an error queue that does not exist."""

GATHERING = 0.01
"""Seconds to wait for the rest of a batch while the window grows: only a full one makes it wider."""

STOP_LIMIT = 4.0
"""Seconds after an order to stop in which what was handed over is still stored."""

PIPELINE_DEPTH = 3
"""Batches in hand when pipelined: one is stored, one is parsed, one is on its way here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestionState:
    """Whether an error queue is being consumed; if not, why. For other threads to read."""

    queue: str
    consuming: bool
    reason: str | None


@dataclass(slots=True, kw_only=True)
class Ingestor:
    """Takes failed messages off one error queue. One thread runs it; others may read `state`.

    With `declare_missing` a queue that does not exist is declared, whenever that is noticed.
    `prefetch` is the most messages that may be unacknowledged. `pause` is how many seconds the
    database is left to other writers between two batches. Without a pause, and once the window
    has grown to `prefetch`, the next batch is read while one is recorded.
    """

    mapping: QueueMapping
    transport: Transport
    record: Record
    probe: Probe
    clock: Clock
    emit: Emit
    declare_missing: bool = False
    prefetch: int = 500
    pause: float = 0.0
    state: IngestionState = field(init=False)
    storing_since: float | None = field(init=False, default=None)
    """Since when a batch is being stored (monotonic seconds); None while none is."""
    handed_at: float = field(init=False)
    """When the broker last delivered something here, at first the start; monotonic seconds."""
    empty_since: float | None = field(init=False, default=None)
    """When the newest look at the queue began that found nothing or no queue, with nothing in hand."""
    _consumer: Consumer | None = field(init=False, default=None)
    _ahead: Reading | None = field(init=False, default=None)
    _window: int = field(init=False, default=1)
    _failures: int = field(init=False, default=0)
    _was_consuming: bool = field(init=False, default=False)
    _was_missing: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        self.state = self._idle("not started yet")
        self.handed_at = self.clock.monotonic()

    def run(self, stop: threading.Event) -> None:
        """Ingest until `stop` is set; after a failure, try again when the back-off is over."""
        while not stop.is_set():
            stop.wait(self._turn())
        self._leave()
        self.state = self._idle("stopped")

    def ingest_once(self) -> int:
        """Ingest at most one batch; return how many messages it had.

        Raises BrokerUnavailable, DatabaseUnavailable, ErrorQueueUnusable.
        """
        timeout = FIRST_TIMEOUT if self._consumer is None else RECEIVE_TIMEOUT
        consumer = self._consumer or self._open()
        began = self.clock.monotonic()
        reading = self._ahead or self._receive(consumer, timeout)
        self._ahead = None
        self._make_sure()
        if reading is not None:
            self._ingest(consumer, reading)
        elif timeout == RECEIVE_TIMEOUT:
            self.empty_since = began
        self._show_consuming()
        return len(reading.deliveries) if reading is not None else 0

    def _turn(self) -> float:
        """Ingest once; return the seconds to wait before the next turn."""
        began = self.clock.monotonic()
        try:
            ingested = self.ingest_once()
        except ErrorQueueMissing as error:
            return self._await_queue(str(error), began)
        except RetrierError as error:
            return self._back_off(str(error))
        except Exception as error:  # noqa: BLE001 - the loop's edge: it must outlive any failure
            return self._back_off(f"unforeseen {type(error).__name__}", error)
        self._failures = 0
        return self.pause if ingested else 0.0

    def _open(self) -> Consumer:
        """Connect with a window of one, and only after a write to the database has succeeded.

        A queue with a delivery limit drops a message that came back too often. So nothing may be
        taken off it while nothing can be stored.
        """
        self.probe()
        self._inspect()
        self.emit(ErrorQueueOpened(queue=self.mapping.queue))
        self._window = 1
        self._consumer = self.transport.consumer(self.mapping.queue, self._window)
        return self._consumer

    def _inspect(self) -> None:
        """Look whether the queue is there and may be ingested. Raises ErrorQueueUnusable.

        Only before the first success a work queue is refused: after a lost connection the broker
        counts our own old consumer for a while.
        """
        doubt = admit(
            self.transport,
            self.mapping,
            declare_missing=self.declare_missing,
            judging=not self._was_consuming,
        )
        self._was_missing = False
        if doubt is not None:
            self.emit(ErrorQueueDoubted(queue=self.mapping.queue, reason=doubt))

    @property
    def _is_pipelined(self) -> bool:
        return self._window >= self.prefetch and not self.pause

    def _receive(self, consumer: Consumer, timeout: float) -> Reading | None:
        deliveries = consumer.receive(self._limit, timeout)
        while deliveries and self._window < self.prefetch and len(deliveries) < self._limit:
            more = consumer.receive(self._limit - len(deliveries), GATHERING)
            if not more:
                break
            deliveries += more
        return self._read(deliveries) if deliveries else None

    def _make_sure(self) -> None:
        """Raise BrokerUnavailable if the broker may have given away what is in hand.

        A process that was frozen, or that waited for the database for long, would store it as new
        failures, after the process that got it then. So it gives up this consumer with all that was
        sent to it, in hand or not yet read. What comes here again is marked as delivered before,
        and is recognised.
        """
        if self._consumer is None or not self._consumer.surely_holds():
            raise BrokerUnavailable(
                f"the connection to the broker at {self.transport.place} ended, or nothing was said on "
                "it for too long: others may have what is in hand, so all of it is received again"
            )

    @property
    def _limit(self) -> int:
        """The most messages of a batch."""
        return max(1, self._window // PIPELINE_DEPTH) if self._is_pipelined else self._window

    def _read(self, deliveries: Sequence[Delivery]) -> Reading:
        self.handed_at = self.clock.monotonic()
        return Reading(deliveries, self.transport.codec, self.mapping, self.clock.now())

    def _ingest(self, consumer: Consumer, reading: Reading) -> None:
        if self._is_pipelined:
            reading.finish()
            self._ahead = self._receive(consumer, 0.0)
        self._commit(reading)
        window = self._next_window(reading.deliveries)
        if window == self._window:
            self._ack(consumer, reading)
        else:
            self._change_window(consumer, reading, window)

    def _commit(self, reading: Reading) -> None:
        queue, received = self.mapping.queue, reading.finish()
        self.emit(BatchReceived(queue=queue, count=len(received)))
        self.storing_since = self.clock.monotonic()
        try:
            stored = self._store(reading.deliveries, received)
        finally:
            self.storing_since = None
        self.emit(stored)

    def _ack(self, consumer: Consumer, reading: Reading) -> None:
        # Acknowledged after the commit: after a crash in between the broker redelivers the batch,
        # and its fingerprints show that it is stored already.
        consumer.ack(reading.deliveries)
        self.emit(BatchAcked(queue=self.mapping.queue, count=len(reading.deliveries)))

    def _store(self, deliveries: Sequence[Delivery], received: Sequence[Received]) -> BatchStored:
        """Record all in one transaction, or one by one if the database refuses one of them."""
        parse_next = self._ahead.parse_next if self._ahead else nothing_else
        noteworthy: list[Noteworthy] = []
        recorded: Recorded | None = None
        try:
            recorded = self.record(received, while_in_flight=parse_next, make_sure=self._make_sure)
            noteworthy.extend(recorded.noteworthy)
        except DataRefused:
            for pair in zip(deliveries, received, strict=True):
                noteworthy.extend(self._store_one(*pair))
        return BatchStored(queue=self.mapping.queue, recorded=recorded, noteworthy=noteworthy)

    def _store_one(self, delivery: Delivery, received: Received) -> Sequence[Noteworthy]:
        try:
            recorded = self.record([received], make_sure=self._make_sure)
        except DataRefused as refusal:
            refused = refused_import(delivery, received, str(refusal), self.clock.now())
            recorded = self.record([refused], make_sure=self._make_sure)
        self.emit(StoredAlone(queue=self.mapping.queue, recorded=recorded))
        return recorded.noteworthy

    def _next_window(self, deliveries: Sequence[Delivery]) -> int:
        """Return the window after a stored batch. It stays as it is while the batch was not full.

        Then the broker may be handing out more, and the consumer must not be cancelled.
        """
        if len(deliveries) < self._limit:
            return self._window
        size = sum(len(each.raw) + len(each.body) for each in deliveries)
        return next_prefetch(self._window, size / len(deliveries), self.prefetch)

    def _change_window(self, consumer: Consumer, reading: Reading, window: int) -> None:
        """Acknowledge a stored batch, and consume with another window.

        The old consumer ends before anything is acknowledged, while its window is full and nothing
        is on its way to it. A quorum queue would put that behind later messages, and count it.
        """
        left = consumer.cease()
        self._ack(consumer, reading)
        self._finish(consumer, left)
        consumer.resume(window)
        self._window = window

    def _finish(
        self, consumer: Consumer, left: Sequence[Delivery], until: float | None = None
    ) -> None:
        """Store and acknowledge all that a consumer which has ceased was handed, in its order.

        At most `until` then (monotonic seconds).
        """
        ahead, self._ahead = self._ahead, None
        readings = [] if ahead is None else [ahead]
        parts = range(0, len(left), self._limit)
        readings += [self._read(left[start : start + self._limit]) for start in parts]
        for reading in readings:
            if until is not None and self.clock.monotonic() > until:
                return
            self._commit(reading)
            self._ack(consumer, reading)

    def _leave(self) -> None:
        """Store what was handed over, then close: what goes back counts as a delivery."""
        try:
            if self._consumer is not None:
                until = self.clock.monotonic() + STOP_LIMIT
                self._finish(self._consumer, self._consumer.cease(), until)
        except RetrierError as error:
            self.emit(IngestionPaused(queue=self.mapping.queue, reason=str(error), error=None))
        finally:
            self._close()

    def _show_consuming(self) -> None:
        """Report after a whole turn that it works: an open consumer alone does not prove it."""
        if self.state.consuming:
            return
        event = IngestionResumed if self._was_consuming else IngestionStarted
        self.emit(event(queue=self.mapping.queue))
        self._was_consuming = True
        self.state = IngestionState(queue=self.mapping.queue, consuming=True, reason=None)

    def _back_off(self, reason: str, error: Exception | None = None) -> float:
        """Close the consumer; return the seconds until the next try.

        Only the first failure in a row is reported as an event.
        """
        self._close()
        self.state = self._idle(reason)
        if self._failures == 0:
            self.emit(IngestionPaused(queue=self.mapping.queue, reason=reason, error=error))
        delay = BACK_OFF[min(self._failures, len(BACK_OFF) - 1)]
        self._failures += 1
        return delay

    def _await_queue(self, reason: str, began: float) -> float:
        """Close the consumer; return the seconds until the next look for a missing queue."""
        self._close()
        self.empty_since = began
        self.state = self._idle(reason)
        if not self._was_missing:
            self.emit(ErrorQueueGone(queue=self.mapping.queue))
        self._was_missing = True
        return LOOK_FOR_MISSING

    def _close(self) -> None:
        self._ahead = None
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _idle(self, reason: str) -> IngestionState:
        return IngestionState(queue=self.mapping.queue, consuming=False, reason=reason)
