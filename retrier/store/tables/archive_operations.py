"""Archive operations (`archive_operations`): added, moved on chunk by chunk, completed."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sqlalchemy import ColumnElement, delete, select, update

from retrier.domain.archive_operation import ArchiveOperationState
from retrier.store.engine.transaction import StoredRow, Transaction
from retrier.store.schema import archive_operations

operations = archive_operations.c


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """Where a chunk ended, and the counts of its operation from then on."""

    cursor: int
    done: int
    because: Mapping[str, int]


def add(tx: Transaction, row: dict[str, object]) -> bool:
    """Add an operation; false if another one has its idempotency key."""
    inserted = tx.execute(
        tx.sql.insert(archive_operations)
        .values(created_at=tx.now, modified_at=tx.now, **row)
        .on_conflict_do_nothing(index_elements=["idempotency_key"])
        .returning(operations.operation_id)
    )
    return inserted.first() is not None


def lock_at(tx: Transaction, operation_id: str, cursor: int) -> StoredRow | None:
    """Lock an operation that is not completed and whose cursor is there; None if there is none.

    A chunk that is done already is not done once more: its cursor has moved on.
    """
    query = select(archive_operations).where(
        operations.operation_id == operation_id,
        operations.cursor == cursor,
        operations.state != ArchiveOperationState.COMPLETED,
    )
    return tx.execute(query.with_for_update()).first()


def move_on(tx: Transaction, before: StoredRow, counted: Counted) -> None:
    """Move the cursor of an operation that this transaction has locked, and set its counts."""
    skipped = sum(counted.because.values())
    tx.execute(
        update(archive_operations)
        .where(operations.operation_id == before.operation_id)
        .values(
            state=ArchiveOperationState.RUNNING,
            cursor=counted.cursor,
            done=counted.done,
            skipped=skipped,
            skipped_because=dict(counted.because),
            # More may match than was counted: another operation went on meanwhile.
            total=max(before.total, counted.done + skipped),
            reason=None,
            started_at=before.started_at or tx.now,
            modified_at=tx.now,
        )
    )


def complete(tx: Transaction, operation_id: str) -> None:
    """Complete an operation that this transaction has locked."""
    over = {"state": ArchiveOperationState.COMPLETED, "completed_at": tx.now}
    tx.execute(
        update(archive_operations).where(operations.operation_id == operation_id).values(over)
    )


def note_reason(tx: Transaction, operation_id: str, reason: str) -> None:
    """Note why an operation stands still."""
    told = {"reason": reason, "modified_at": tx.now}
    open_ = operations.state != ArchiveOperationState.COMPLETED
    tx.execute(
        update(archive_operations)
        .where(operations.operation_id == operation_id, open_)
        .values(told)
    )


def acknowledge(tx: Transaction, operation_ids: Iterable[str]) -> None:
    """Note that a person has seen that these are completed."""
    done = operations.state == ArchiveOperationState.COMPLETED
    those = tx.sql.member(operations.operation_id, sorted(operation_ids))
    tx.execute(
        update(archive_operations)
        .where(those, done, operations.acknowledged_at.is_(None))
        .values(acknowledged_at=tx.now)
    )


def delete_old(tx: Transaction, conditions: Iterable[ColumnElement[bool]], most: int) -> int:
    """Delete those that meet conditions, the oldest first; return how many.

    The ids that they named go with them (foreign key).
    """
    query = select(operations.operation_id).where(*conditions).order_by(operations.completed_at)
    ids = tx.execute(query.limit(most).with_for_update(skip_locked=True)).scalars().all()
    if ids:
        tx.execute(delete(archive_operations).where(tx.sql.member(operations.operation_id, ids)))
    return len(ids)
