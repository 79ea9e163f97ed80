"""An operation that is done: its end, and the event that tells of it."""

from sqlalchemy import select

from retrier.store.engine.transaction import Transaction
from retrier.store.schema import retry_operations
from retrier.store.tables import event_log
from retrier.store.tables import retry_operations as operations
from retrier.store.tables.event_log import Entry


def complete_operation(tx: Transaction, operation_id: str) -> bool:
    """Complete an operation whose last cut was empty, and say what became of its messages.

    Returns false if it was paused or is to be cancelled.
    """
    if not operations.complete(tx, operation_id):
        return False
    columns = retry_operations.c
    wanted = (columns.originator, columns.forwarded, columns.skipped, columns.failed)
    row = tx.execute(select(*wanted).where(columns.operation_id == operation_id)).one()
    completed = Entry(
        kind="operation_completed",
        text=(
            f"{row.originator}: done: {row.forwarded} forwarded, {row.skipped} skipped, "
            f"{row.failed} failed"
        ),
        operation_id=operation_id,
    )
    event_log.append(tx, [completed])
    return True
