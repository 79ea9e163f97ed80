"""The recurring task that presumes old pending retries to have succeeded."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from threading import Event

from retrier.clock import Clock
from retrier.domain.retention import SecondLook
from retrier.errors import LeaseLost
from retrier.events.event import Emit
from retrier.events.service import ChunkPresumed, RetriesPresumed
from retrier.processor.lease import Lease
from retrier.store.engine.database import Database
from retrier.store.pending import PRESUMED_AT_ONCE, find_presumable, presume

_PACE = 0.2
"""Seconds from one transaction to the next at least: ingestion has the database in between."""

_LONGEST_LOOK = 60.0


def seconds_between_looks(sent_for: timedelta) -> float:
    """Return how often to look: a tenth of that time, between a second and a minute."""
    return min(_LONGEST_LOOK, max(1.0, sent_for.total_seconds() / 10))


@dataclass(frozen=True, slots=True, kw_only=True)
class Presumption:
    """Walks all pending retries once, whenever it is called, if this process holds the lease."""

    db: Database
    lease: Lease
    sent_for: timedelta
    second_look: SecondLook
    clock: Clock
    emit: Emit
    stop: Event
    wake: Event

    def __call__(self) -> None:
        """Resolve what was sent that long ago, chunk by chunk. Raises DatabaseUnavailable."""
        as_of = self.second_look.agreed
        if as_of is None or not self.lease.held:
            return
        presumed = after = 0
        try:
            while found := self._find(after, as_of):
                presumed += self._presume(found, as_of)
                after = found[-1]
        except LeaseLost:
            # The processor notices it in its next turn and reports it; the next holder goes on.
            self.wake.set()
        finally:
            if presumed:
                self.emit(RetriesPresumed(count=presumed))

    def _find(self, after: int, as_of: datetime) -> Sequence[int]:
        if self.stop.is_set():
            return ()
        return find_presumable(self.db, self.sent_for, after, as_of)

    def _presume(self, numbers: Sequence[int], as_of: datetime) -> int:
        began = self.clock.monotonic()
        count = presume(self.db, self.lease.fence, self.sent_for, numbers, as_of)
        self.emit(ChunkPresumed(count=count))
        if len(numbers) == PRESUMED_AT_ONCE:
            took = self.clock.monotonic() - began
            self.stop.wait(max(took, _PACE - took))
        return count
