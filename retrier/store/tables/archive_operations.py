"""Archive operations (`archive_operations`): added, moved on chunk by chunk, completed."""

from retrier.store.engine.transaction import Transaction
from retrier.store.schema import archive_operations

operations = archive_operations.c


def add(tx: Transaction, row: dict[str, object]) -> bool:
    """Add an operation; false if another one has its idempotency key."""
    inserted = tx.execute(
        tx.sql.insert(archive_operations)
        .values(created_at=tx.now, modified_at=tx.now, **row)
        .on_conflict_do_nothing(index_elements=["idempotency_key"])
        .returning(operations.operation_id)
    )
    return inserted.first() is not None
