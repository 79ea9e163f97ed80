"""Retention: the processor deletes what is older than it is kept, whenever there is some."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from threading import Event

from retrier.clock import Clock
from retrier.domain.retention import Old, SecondLook, Swept, pause_after
from retrier.errors import LeaseLost
from retrier.events.event import Emit
from retrier.events.processor import ChunkDeleted, RetentionSwept
from retrier.processor.lease import Lease
from retrier.store.comments import sweep_comments
from retrier.store.engine.database import Database
from retrier.store.retention import DeletedChunk, delete_chunk, find_due, give_back_pages, log_sweep

_LONGEST = 60.0
"""Seconds after which a sweep tells what it deleted; the next one goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """Deletes chunk by chunk, with pauses, in a thread beside the processor's.

    Everything durable is in the database: after a kill the next sweep finds what is left.
    """

    db: Database
    lease: Lease
    ages: Sequence[Old]
    instance: str
    second_look: SecondLook
    clock: Clock
    emit: Emit
    stop: Event

    def sweep(self) -> None:
        """Delete what is due; nothing without the lease. Raises DatabaseUnavailable."""
        as_of = self.second_look.agreed
        if as_of is None or not self.lease.held:
            return
        # Look without a lock first: each chunk writes the lease, even with nothing to delete.
        due = find_due(self.db, self.ages, as_of)
        if not due:
            return
        try:
            self._note(self._delete(due, as_of))
        except LeaseLost:
            # Another process has the lease now, and deletes the rest. The processor reports the loss.
            return
        self._give_back_pages()

    def _delete(self, due: Sequence[Old], as_of: datetime) -> Swept:
        end, swept = self.clock.monotonic() + _LONGEST, Swept()
        for old in due:
            more = True
            while more and not self.stop.is_set() and self.clock.monotonic() < end:
                chunk = self._delete_chunk(old, as_of)
                swept, more = swept.plus(old, chunk.count), chunk.more
        return swept

    def _delete_chunk(self, old: Old, as_of: datetime) -> DeletedChunk:
        began = self.clock.monotonic()
        chunk = delete_chunk(self.db, self.lease.fence, old, self.instance, as_of)
        if chunk.count:
            self.emit(ChunkDeleted(old=old, count=chunk.count))
        if chunk.more:
            self._pause(began)
        return chunk

    def _note(self, swept: Swept) -> None:
        if swept.is_empty:
            return
        if swept.messages:
            sweep_comments(self.db)
        log_sweep(self.db, self.lease.fence, swept)
        self.emit(
            RetentionSwept(
                messages=swept.messages, operations=swept.operations, imports=swept.imports
            )
        )

    def _give_back_pages(self) -> None:
        began = self.clock.monotonic()
        while give_back_pages(self.db) and not self.stop.is_set():
            self._pause(began)
            began = self.clock.monotonic()

    def _pause(self, began: float) -> None:
        self.stop.wait(pause_after(self.clock.monotonic() - began))
