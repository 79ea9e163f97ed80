"""An ingestor over a scripted transport, with a store that does what it is told."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

from retrier.domain.failed_message import FailedImport, OwnCopy, Received, Stamped
from retrier.domain.recording import Receipt, Recorded
from retrier.events.event import Emit, Event, ignore
from retrier.ingestion.ingestor import Ingestor
from retrier.ingestion.parsing import QueueMapping
from retrier.overlap import WhileInFlight, is_sure, nothing_else
from retrier.store.figures import KINDS_OF_DELIVERY
from tests.support.frozen_clock import FrozenClock
from tests.support.raw_messages import raw_properties, retrier_headers
from tests.support.scripted_connections import ScriptedConsumer
from tests.support.scripted_transport import ScriptedTransport
from tests.support.told import Told

QUEUE = "error"


class Stop(threading.Event):
    """A stop event that nobody waits for: it notes the waits, and is set after some of them."""

    def __init__(self, turns: int) -> None:
        super().__init__()
        self.turns = turns
        self.waits: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        """Note the wait."""
        self.waits.append(timeout)
        if len(self.waits) >= self.turns:
            self.set()
        return self.is_set()


NOTHING = Receipt(
    attempts=(), changes=(), imports=(), new=0, repeated=0, redelivered=0, confirmations=0
)


def make_recorded(*noteworthy: FailedImport | OwnCopy) -> Recorded:
    """Return what a store tells of a batch, as far as a script knows it."""
    return Recorded(
        receipt=NOTHING,
        counts=dict.fromkeys(KINDS_OF_DELIVERY, 0),
        confirmed=0,
        failed_again=0,
        noteworthy=noteworthy,
    )


class ScriptedStore:
    """Keeps the batches recorded; raises what `faults` and `probe_faults` hold, one a call."""

    def __init__(self) -> None:
        self.batches: list[list[Received]] = []
        self.probes = 0
        self.faults: list[Exception | None] = []
        self.probe_faults: list[Exception | None] = []
        self.refuses: dict[bytes, Exception] = {}
        self.waits: Callable[[], None] = is_sure
        """Called while a batch waits for a lock."""

    def record(
        self,
        received: Sequence[Received],
        *,
        while_in_flight: WhileInFlight = nothing_else,
        make_sure: Callable[[], None] = is_sure,
    ) -> Recorded:
        """Record a batch, or refuse it whole for one of its bodies; stamps are true here."""
        while while_in_flight():
            pass
        self.waits()
        make_sure()
        fault = self.faults.pop(0) if self.faults else None
        if fault is not None:
            raise fault
        for each in received:
            refusal = self.refuses.get(getattr(each, "body", b""))
            if refusal is not None and hasattr(each, "details"):
                raise refusal
        self.batches.append(list(received))
        told = [each.if_ours if isinstance(each, Stamped) else each for each in received]
        return make_recorded(*(each for each in told if isinstance(each, FailedImport | OwnCopy)))

    def probe(self) -> None:
        """Answer, or not."""
        self.probes += 1
        fault = self.probe_faults.pop(0) if self.probe_faults else None
        if fault is not None:
            raise fault


class IngestionBench:
    """One error queue, one ingestor, and everything it touches."""

    def __init__(self, subscriber: Emit = ignore, **changes: Any) -> None:
        self.clock = FrozenClock()
        self.told = Told(self.clock)
        self.subscriber = subscriber
        self.store = ScriptedStore()
        self.transport = ScriptedTransport()
        self.transport.broker.declare(QUEUE)
        parts: dict[str, Any] = {
            "mapping": QueueMapping(queue=QUEUE),
            "transport": self.transport,
            "record": self.store.record,
            "probe": self.store.probe,
            "clock": self.clock,
            "emit": self.emit,
        }
        self.ingestor = Ingestor(**parts | changes)

    def emit(self, event: Event) -> None:
        """Be told of an event."""
        self.told.tell(event)
        self.subscriber(event)

    def fail(self, *bodies: bytes) -> None:
        """Let one failed message per body arrive."""
        raw = raw_properties(retrier_headers())
        for body in bodies:
            self.transport.broker.put(QUEUE, raw, body)

    def turns(self, count: int) -> Stop:
        """Run so many turns of the loop, then stop."""
        stop = Stop(count)
        self.ingestor.run(stop)
        return stop

    def recorded(self) -> list[list[bytes]]:
        """Return the bodies of each batch that was recorded."""
        return [[getattr(each, "body", b"") for each in batch] for batch in self.store.batches]

    def consumer(self) -> ScriptedConsumer:
        """Return the consumer that is open."""
        (found,) = [
            each for each in self.transport.connections if isinstance(each, ScriptedConsumer)
        ]
        return found
