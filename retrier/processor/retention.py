"""Retention: the processor deletes what is older than it is kept, whenever there is some."""

from collections.abc import Sequence
from datetime import datetime

from retrier.domain.retention import Old, SecondLook, Swept, pause_after
from retrier.domain.values import dataclass
from retrier.errors import LeaseLost
from retrier.events.processor import ChunkDeleted, RetentionSwept
from retrier.processor.lease import HolderContext
from retrier.store.comments import sweep_comments
from retrier.store.retention import DeletedChunk, delete_chunk, find_due, give_back_pages, log_sweep

_LONGEST = 60.0
"""Seconds after which a sweep tells what it deleted; the next one goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionJob:
    """Deletes chunk by chunk, with pauses, in a thread beside the processor's.

    Everything durable is in the database: after a kill the next sweep finds what is left.
    """

    context: HolderContext
    ages: Sequence[Old]
    instance: str
    second_look: SecondLook

    def sweep(self) -> None:
        """Delete what is due; nothing without the lease. Raises DatabaseUnavailable."""
        as_of = self.second_look.agreed
        if as_of is None or not self.context.lease.held:
            return
        # Look without a lock first: each chunk writes the lease, even with nothing to delete.
        due = find_due(self.context.db, self.ages, as_of)
        if not due:
            return
        try:
            self._note(self._delete(due, as_of))
        except LeaseLost:
            # Another process has the lease now, and deletes the rest. The processor reports the loss.
            return
        self._give_back_pages()

    def _delete(self, due: Sequence[Old], as_of: datetime) -> Swept:
        end, swept = self.context.clock.monotonic() + _LONGEST, Swept()
        for old in due:
            more = True
            while more and not self.context.stop.is_set() and self.context.clock.monotonic() < end:
                chunk = self._delete_chunk(old, as_of)
                swept, more = swept.plus(old, chunk.count), chunk.more
        return swept

    def _delete_chunk(self, old: Old, as_of: datetime) -> DeletedChunk:
        began = self.context.clock.monotonic()
        chunk = delete_chunk(self.context.db, self.context.lease.fence, old, self.instance, as_of)
        if chunk.count:
            self.context.emit(ChunkDeleted(old=old, count=chunk.count))
        if chunk.more:
            self._pause(began)
        return chunk

    def _note(self, swept: Swept) -> None:
        if swept.is_empty:
            return
        if swept.messages:
            sweep_comments(self.context.db)
        log_sweep(self.context.db, self.context.lease.fence, swept)
        self.context.emit(
            RetentionSwept(
                messages=swept.messages, operations=swept.operations, imports=swept.imports
            )
        )

    def _give_back_pages(self) -> None:
        began = self.context.clock.monotonic()
        while give_back_pages(self.context.db) and not self.context.stop.is_set():
            self._pause(began)
            began = self.context.clock.monotonic()

    def _pause(self, began: float) -> None:
        self.context.stop.wait(pause_after(self.context.clock.monotonic() - began))
