"""Works off archive operations: the holder of the lease does it, in a thread beside the processor's.

So a broker that is away, or a batch in Forwarding, does not hold it up.
"""

from dataclasses import dataclass
from threading import Event

from retrier.clock import Clock
from retrier.domain.archive_operation import AT_ONCE, ArchiveOperation
from retrier.errors import DatabaseUnavailable, LeaseLost, RetrierError
from retrier.events.event import Emit
from retrier.events.processor import (
    ArchiveChunkDone,
    ArchiveCompleted,
    ArchivingPaused,
    ArchivingResumed,
)
from retrier.processor.lease import Lease
from retrier.store.archive import note_reason, work_off
from retrier.store.archive_lists import find_archive_chunk, find_next_archive
from retrier.store.engine.database import Database

LOOK = 1.0
"""Seconds between two looks while there is nothing to do: a request to another process is seen."""
_BACK_OFF = (1.0, 2.0, 5.0, 10.0)
"""Seconds to wait after the first failures in a row; the last one again and again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivingContext:
    """What it needs. `db` has a connection of its own; `wake` is set by requests and by the stop."""

    db: Database
    lease: Lease
    clock: Clock
    emit: Emit
    stop: Event
    wake: Event
    chunk: int = AT_ONCE


class Archiving:
    """Does one chunk after the other, of the oldest operation first.

    In the order of the requests: who archives a group and then takes it back has it back. What is
    durable is in the database; after a kill the next holder goes on behind the last chunk.
    """

    def __init__(self, context: ArchivingContext) -> None:
        self._context = context
        self._failures = 0

    def run(self) -> None:
        """Work until the stop event is set; after an error, try again when the back-off is over."""
        context = self._context
        while not context.stop.is_set():
            pause = self._turn()
            if pause:
                context.wake.wait(pause)
                context.wake.clear()

    def work_once(self) -> bool:
        """Do at most one chunk; return whether there was one. Raises LeaseLost, RetrierError."""
        context = self._context
        if not context.lease.held:
            return False
        operation = find_next_archive(context.db)
        if operation is None:
            return False
        try:
            self._work_on(operation)
        except (LeaseLost, DatabaseUnavailable):
            raise
        except Exception as error:
            reason = str(error) if isinstance(error, RetrierError) else type(error).__name__
            note_reason(context.db, operation.operation_id, reason)
            raise
        return True

    def _work_on(self, operation: ArchiveOperation) -> None:
        context = self._context
        chunk = find_archive_chunk(context.db, operation, context.chunk)
        outcome = work_off(context.db, context.lease.fence, operation, chunk)
        if outcome is None:
            return
        about = {"operation_id": operation.operation_id, "act": str(operation.act)}
        context.emit(ArchiveChunkDone(done=outcome.done, skipped=outcome.skipped, **about))
        if outcome.completed:
            context.emit(ArchiveCompleted(**about))

    def _turn(self) -> float:
        """Do one chunk; return the seconds to wait before the next one."""
        began = self._context.clock.monotonic()
        try:
            worked = self.work_once()
        except LeaseLost:
            # Reported by the processor, whose lease it is.
            return LOOK
        except RetrierError as error:
            return self._back_off(str(error), None)
        except Exception as error:  # noqa: BLE001 - the loop's edge: it must outlive any failure
            return self._back_off(f"unforeseen {type(error).__name__}", error)
        if self._failures:
            self._context.emit(ArchivingResumed())
        self._failures = 0
        if worked:
            self._give_way(self._context.clock.monotonic() - began)
        return 0.0 if worked else LOOK

    def _give_way(self, took: float) -> None:
        """Do nothing for a while: others use the same disk, and on SQLite the same lock."""
        self._context.stop.wait(took if self._context.db.is_sqlite else took / 10)

    def _back_off(self, reason: str, error: Exception | None) -> float:
        self._failures += 1
        if self._failures == 1:
            self._context.emit(ArchivingPaused(reason=reason, error=error))
        return _BACK_OFF[min(self._failures, len(_BACK_OFF)) - 1]
