"""Marking: finish what was found in Marking, else cut the next batch off an operation."""

from retrier.domain.retry_batch import RetryBatch
from retrier.processor.crash_points import CrashPoint
from retrier.processor.surroundings import Surroundings
from retrier.processor.watcher import Stage
from retrier.store.verbs.marking import (
    MarkedBatch,
    OpenedBatch,
    claim_messages,
    move_to_staging,
    open_batch,
)


class Adoption:
    """Takes over a batch in Marking, with the claims it got.

    At the top of a turn such a batch is an orphan: another session's, or this one's after an
    error. It comes before new cuts, since its claims keep other retries off.
    """

    def __init__(self, around: Surroundings) -> None:
        self._around = around

    def run_once(self, batch: RetryBatch) -> None:
        """Adopt this orphan."""
        around = self._around
        size = move_to_staging(around.db, around.lease.fence, batch.batch_id)
        around.crash_point(CrashPoint.ADOPTION_MOVED)
        around.progress.made()
        around.say(
            "batch.adopted",
            batch_id=batch.batch_id,
            operation_id=batch.operation_id,
            session_id=batch.session_id,
            size=size,
        )


class Marking:
    """Cuts at most 1000 messages off the operation whose turn it is."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around

    def run_once(self) -> bool:
        """Cut one batch; say whether any operation could be cut."""
        around = self._around
        began = around.clock.monotonic()
        match open_batch(around.db, around.lease.fence, around.retries.session_id):
            case None:
                return False
            case OpenedBatch() as opened:
                marked = self._claim(opened)
            case marked:
                pass
        around.progress.made()
        if marked.completed:
            around.say("operation.completed", operation_id=marked.operation_id)
        else:
            around.crash_point(CrashPoint.MARKING_MOVED)
            around.watcher.passed(Stage.MARKING, around.clock.monotonic() - began)
            around.say(
                "batch.marked",
                batch_id=marked.batch_id,
                operation_id=marked.operation_id,
                size=marked.claimed,
            )
        return True

    def _claim(self, opened: OpenedBatch) -> MarkedBatch:
        """Go through Marking step by step: a crash in between leaves an orphan."""
        around = self._around
        around.crash_point(CrashPoint.MARKING_OPENED)
        marked = claim_messages(around.db, around.lease.fence, opened)
        around.crash_point(CrashPoint.MARKING_CLAIMED)
        around.progress.made()
        if not marked.completed:
            move_to_staging(around.db, around.lease.fence, opened.batch_id)
        return marked
