"""Marking: adopts a batch that was left in Marking, or cuts the next one off an operation."""

from retrier.domain.retry_batch import RetryBatch
from retrier.events.preparation import (
    BatchAdopted,
    BatchMarked,
    BatchOpened,
    MessagesClaimed,
    OperationCompleted,
)
from retrier.processor.stage_context import StageContext
from retrier.store.verbs.marking import (
    MarkedBatch,
    OpenedBatch,
    claim_messages,
    move_to_staging,
    open_batch,
)


class Adoption:
    """Moves an orphaned batch from Marking to Staging, with the claims it has.

    A batch found in Marking at the start of a turn is an orphan: another session left it, or this
    one after an error. Orphans go before new cuts, because their claims block other retries.
    """

    def __init__(self, context: StageContext) -> None:
        self._context = context

    def run_once(self, batch: RetryBatch) -> None:
        """Adopt this orphan. Raises LeaseLost, DatabaseUnavailable."""
        context = self._context
        size = move_to_staging(context.db, context.lease.fence, batch.batch_id)
        context.emit(
            BatchAdopted(
                batch_id=batch.batch_id,
                operation_id=batch.operation_id,
                session_id=batch.session_id,
                size=size,
            )
        )
        context.progress.made()


class Marking:
    """Cuts at most 1000 messages off the operation whose turn it is."""

    def __init__(self, context: StageContext) -> None:
        self._context = context

    def run_once(self) -> bool:
        """Cut one batch; return whether there was an operation to cut.

        Raises LeaseLost, DatabaseUnavailable.
        """
        context = self._context
        began = context.clock.monotonic()
        match open_batch(context.db, context.lease.fence, context.retries.session_id):
            case None:
                return False
            case OpenedBatch() as opened:
                marked = self._claim(opened)
            case marked:
                pass
        context.progress.made()
        if marked.completed:
            context.emit(OperationCompleted(operation_id=marked.operation_id))
        elif marked.claimed:
            context.emit(
                BatchMarked(
                    batch_id=marked.batch_id,
                    operation_id=marked.operation_id,
                    size=marked.claimed,
                    seconds=context.seconds_since(began),
                )
            )
        return True

    def _claim(self, opened: OpenedBatch) -> MarkedBatch:
        """Claim and move in two transactions: a crash between them leaves an orphan to adopt."""
        context = self._context
        batch_id, operation_id = opened.batch_id, opened.operation.operation_id
        context.emit(BatchOpened(batch_id=batch_id, operation_id=operation_id))
        marked = claim_messages(context.db, context.lease.fence, opened)
        size = marked.claimed
        context.emit(MessagesClaimed(batch_id=batch_id, operation_id=operation_id, size=size))
        context.progress.made()
        if not marked.completed:
            move_to_staging(context.db, context.lease.fence, opened.batch_id)
        return marked
