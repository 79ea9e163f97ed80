"""Deleting what is older than it is kept, one chunk in one transaction.

Each of them is fenced: it holds the row of the lease, as every transaction of the processor does.
So no claim is taken, stamped or recorded while it works, and two instances never do it at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import assert_never

from retrier.domain.retention import (
    CHUNK,
    CHUNK_BYTES,
    Old,
    OldImports,
    OldMessages,
    OldOperations,
    Swept,
)
from retrier.store.engine.database import writing
from retrier.store.engine.transaction import StoredRow, Transaction
from retrier.store.queries.retention import (
    Conditions,
    are_old_archives,
    are_old_imports,
    are_old_messages,
    are_old_operations,
)
from retrier.store.tables import (
    archive_operations,
    ended_retries,
    event_log,
    failed_imports,
    failed_messages,
    ledger,
    message_locks,
    outgoing,
    processing_attempts,
    retry_operations,
)
from retrier.store.tables.event_log import Entry
from retrier.store.verbs.leases import fenced

WHO = "retention"  # in the event log


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedChunk:
    """How much a chunk deleted; `more`: it was full, so there may be more."""

    count: int
    more: bool


@fenced
def delete_chunk(
    tx: Transaction, old: Old, instance: str, as_of: datetime | None = None
) -> DeletedChunk:
    """Delete the oldest of them that were due at that time already, and what belongs to them.

    What somebody else has locked, because a failure of it arrives or a person acts on it, is left
    out and not waited for. Raises LeaseLost, DatabaseUnavailable.
    """
    now = tx.agreed(as_of)
    match old:
        case OldMessages():
            return _delete_messages(tx, are_old_messages(old, now), instance)
        case OldOperations(age=age):
            return _delete_operations(tx, age, now)
        case OldImports(age=age):
            return _chunk_of(failed_imports.delete_old(tx, are_old_imports(age, now), CHUNK))
        case _ as never:
            assert_never(never)


def _delete_operations(tx: Transaction, age: timedelta, now: datetime) -> DeletedChunk:
    over = are_old_operations(age, now)
    retries = retry_operations.delete_old(tx, over, CHUNK)
    room = CHUNK - retries
    archives = archive_operations.delete_old(tx, are_old_archives(age, now), room) if room else 0
    return _chunk_of(retries + archives)


def _chunk_of(count: int) -> DeletedChunk:
    return DeletedChunk(count=count, more=count == CHUNK)


def _delete_messages(tx: Transaction, old: Conditions, instance: str) -> DeletedChunk:
    found = message_locks.lock_oldest(tx, old, CHUNK)
    locked = [row.number for row in _within_bytes(found)]
    # Again, now that they are locked: a failure may have come between the look and the lock.
    numbers = sorted(set(locked) - outgoing.find_messages(tx, locked)) if locked else []
    if numbers:
        failed_messages.remove(tx, numbers)
        processing_attempts.delete_of(tx, numbers)
        ended_retries.delete_of(tx, numbers)
        ledger.count(tx, instance, {"deleted": len(numbers)})
    return DeletedChunk(count=len(numbers), more=len(found) == CHUNK or len(numbers) < len(found))


def _within_bytes(rows: Sequence[StoredRow]) -> Sequence[StoredRow]:
    """Return the first of them: large bodies take long to delete, with the lease's row locked."""
    total = 0
    for place, row in enumerate(rows):
        total += row.body_size + row.properties_size * row.attempts
        if total > CHUNK_BYTES and place:
            return rows[:place]
    return rows


@fenced
def log_sweep(tx: Transaction, swept: Swept) -> None:
    """Store an event that says how much was deleted. Raises LeaseLost, DatabaseUnavailable."""
    text = (
        f"older than the settings keep it, so deleted: messages {swept.messages}, "
        f"operations {swept.operations}, failed imports {swept.imports}"
    )
    event_log.append(tx, [Entry(kind="retention_swept", text=text, who=WHO)])


@writing
def give_back_pages(tx: Transaction) -> bool:
    """Give some free pages of an SQLite file back to the file system; say whether there are more.

    PostgreSQL does so itself (autovacuum). Raises DatabaseUnavailable.
    """
    return tx.sql.give_back_pages(tx.conn)
