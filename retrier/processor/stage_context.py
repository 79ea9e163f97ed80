"""What every stage is handed: parameters, store, broker, lease, clock, and who is told of events."""

from dataclasses import dataclass
from datetime import timedelta
from threading import Event

from retrier.clock import Clock
from retrier.events.event import Emit
from retrier.processor.broker import Broker
from retrier.processor.lease import Lease
from retrier.processor.progress import Progress
from retrier.store.engine.database import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryParameters:
    """How batches are staged and forwarded.

    `window` counts messages, `window_bytes` their bytes; whichever is reached first ends a
    window, and a window is what a crash can send twice. `session_id` is the staging id of probes.
    """

    staging_queue: str
    error_queues: tuple[str, ...]
    installation_id: str
    session_id: str
    window: int = 200
    window_bytes: int = 16 * 1024 * 1024
    drain_timeout: timedelta = timedelta(seconds=2)
    marker_timeout: timedelta = timedelta(seconds=5)
    redeclare_pause: timedelta = timedelta(seconds=1)
    idle_wait: timedelta = timedelta(seconds=30)

    @property
    def prefetch(self) -> int:
        """How many copies may be in hand: a window the broker has, the next one, and a third.

        With two, the next one begins to arrive only when the one before it is recorded, and the
        broker has nothing to do while it is made. Copies are small: their messages are in the store.
        """
        return 3 * self.window

    def acknowledgement_queue(self, error_queue: str) -> str:
        """Return where a retry of what failed there is confirmed: a queue that is ingested.

        A queue that is ingested no more would keep the confirmation to itself.
        """
        known = error_queue in self.error_queues or not self.error_queues
        return error_queue if known else self.error_queues[0]

    @property
    def closed_to_retries(self) -> frozenset[str]:
        """Queues to which a retry would come back, or be dropped."""
        return frozenset({*self.error_queues, self.staging_queue})


@dataclass(frozen=True, slots=True, kw_only=True)
class StageContext:
    """Everything a stage needs; built once by the composition root."""

    db: Database
    broker: Broker
    lease: Lease
    clock: Clock
    retries: RetryParameters
    emit: Emit
    stop: Event
    progress: Progress

    def seconds_since(self, began: float) -> float:
        """Return how long ago a moment of the monotonic clock was, to the millisecond."""
        return round(self.clock.monotonic() - began, 3)
