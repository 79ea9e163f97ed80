"""What has been settled for longer than it is kept is deleted, one chunk in one transaction.

Each of them is fenced: it holds the row of the lease, as every transaction of the processor does.
So no claim is taken, stamped or recorded while it works, and two instances never do it at once.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import assert_never

from sqlalchemy import ColumnElement, Select, exists, literal, select

from retrier.domain.events import RETENTION
from retrier.domain.retention import (
    CHUNK,
    CHUNK_BYTES,
    Old,
    OldImports,
    OldMessages,
    OldOperations,
    Swept,
)
from retrier.domain.retry_operation import RetryOperationState
from retrier.domain.values import dataclass
from retrier.store import (
    archive,
    attempts,
    claims,
    edits,
    event_log,
    fields,
    figures,
    imports,
    messages,
    operations,
    outgoing,
    words,
)
from retrier.store.engine.database import reading, writing
from retrier.store.engine.transaction import StoredRow, Transaction
from retrier.store.event_log import Entry
from retrier.store.lease import fenced
from retrier.store.schema import (
    SETTLED,
    archive_operations,
    failed_import_sends,
    failed_imports,
    failed_message_retries,
    failed_messages,
    retry_operations,
)
from retrier.store.schema import outgoing as waiting_copies

message_columns = failed_messages.c
claim_columns = failed_message_retries.c
operation_columns = retry_operations.c
archives = archive_operations.c
sends = failed_import_sends.c


Conditions = tuple[ColumnElement[bool], ...]

_OVER = (RetryOperationState.COMPLETED, RetryOperationState.CANCELLED)


def are_old_messages(old: OldMessages, now: datetime) -> Conditions:
    """Return the conditions for messages that nobody has claimed.

    `last_modified`, not `resolved_at`: that one comes from the consumer's clock, or is empty.
    Nothing that arrives later changes it while the message stays settled (decision 0035).
    """
    return (
        # In these words, or SQLite does not see that the index holds all of them.
        SETTLED,
        message_columns.status == old.status,
        message_columns.resolution == old.resolution,
        message_columns.last_modified < now - old.age,
        # Marking locks no message: one that was settled in that moment has a claim until Staging.
        ~exists().where(claim_columns.number == message_columns.number),
        # A copy for the log queue is made of the attempt, whenever that queue takes it.
        ~exists().where(waiting_copies.c.number == message_columns.number),
    )


def are_old_operations(age: timedelta, now: datetime) -> Conditions:
    """Return the conditions for retry operations that are over."""
    return (operation_columns.completed_at < now - age, operation_columns.state.in_(_OVER))


def are_old_archives(age: timedelta, now: datetime) -> Conditions:
    """Return the conditions for archive operations that are over, and that no message names.

    While a message names it, it tells who archived the message, and can be undone.
    """
    named = exists().where(message_columns.archive_operation_id == archives.operation_id)
    return (archives.completed_at < now - age, ~named)


def are_old_imports(age: timedelta, now: datetime) -> Conditions:
    """Return the conditions for failed imports that nobody is sending, and none is in doubt."""
    return (
        failed_imports.c.received_at < now - age,
        ~exists().where(sends.import_id == failed_imports.c.import_id),
    )


@reading
def find_due(tx: Transaction, ages: Sequence[Old], as_of: datetime | None = None) -> Sequence[Old]:
    """Return those of which there is something to delete, at that time at the latest.

    Raises DatabaseUnavailable.
    """
    now = tx.agreed(as_of)
    return [old for old in ages if any(_is_any(tx, first) for first in _first(old, now))]


def _is_any(tx: Transaction, first: Select[int]) -> bool:
    return tx.execute(first).first() is not None


def _first(old: Old, now: datetime) -> Sequence[Select[int]]:
    """Return the queries for one of them; operations are of two kinds."""
    one = select(literal(1)).limit(1)
    match old:
        case OldMessages():
            return [one.select_from(failed_messages).where(*are_old_messages(old, now))]
        case OldOperations(age=age):
            return [
                one.select_from(retry_operations).where(*are_old_operations(age, now)),
                one.select_from(archive_operations).where(*are_old_archives(age, now)),
            ]
        case OldImports(age=age):
            return [one.select_from(failed_imports).where(*are_old_imports(age, now))]


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
            return _chunk_of(imports.delete_old(tx, are_old_imports(age, now), CHUNK))
        case _ as never:
            assert_never(never)


def _delete_operations(tx: Transaction, age: timedelta, now: datetime) -> DeletedChunk:
    over = are_old_operations(age, now)
    retries = operations.delete_old(tx, over, CHUNK)
    room = CHUNK - retries
    archives = archive.delete_old(tx, are_old_archives(age, now), room) if room else 0
    return _chunk_of(retries + archives)


def _chunk_of(count: int) -> DeletedChunk:
    return DeletedChunk(count=count, more=count == CHUNK)


def _delete_messages(tx: Transaction, old: Conditions, instance: str) -> DeletedChunk:
    found = messages.lock_oldest(tx, old, CHUNK)
    locked = [row.number for row in _within_bytes(found)]
    # Again, now that they are locked: a failure may have come between the look and the lock.
    numbers = sorted(set(locked) - outgoing.find_messages(tx, locked)) if locked else []
    if numbers:
        messages.remove(tx, numbers)
        attempts.delete_of(tx, numbers)
        claims.delete_ended(tx, numbers)
        edits.delete_of(tx, numbers)
        fields.delete_of(tx, numbers)
        words.delete_of(tx, numbers)
        figures.count_deliveries(tx, instance, {"deleted": len(numbers)})
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
    event_log.append(tx, [Entry(kind="retention_swept", text=text, who=RETENTION)])


@writing
def give_back_pages(tx: Transaction) -> bool:
    """Give some free pages of an SQLite file back to the file system; say whether there are more.

    PostgreSQL does so itself (autovacuum). Raises DatabaseUnavailable.
    """
    return tx.sql.give_back_pages(tx.conn)
