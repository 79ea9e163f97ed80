"""What has been settled for longer than it is kept: the conditions, and whether there is any."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, Select, exists, literal, select

from retrier.domain.retention import Old, OldImports, OldMessages, OldOperations
from retrier.domain.retry_operation import RetryOperationState
from retrier.store.engine.database import reading
from retrier.store.engine.transaction import Transaction
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

messages = failed_messages.c
claims = failed_message_retries.c
operations = retry_operations.c
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
        messages.status == old.status,
        messages.resolution == old.resolution,
        messages.last_modified < now - old.age,
        # Marking locks no message: one that was settled in that moment has a claim until Staging.
        ~exists().where(claims.number == messages.number),
        # A copy for the log queue is made of the attempt, whenever that queue takes it.
        ~exists().where(waiting_copies.c.number == messages.number),
    )


def are_old_operations(age: timedelta, now: datetime) -> Conditions:
    """Return the conditions for retry operations that are over."""
    return (operations.completed_at < now - age, operations.state.in_(_OVER))


def are_old_archives(age: timedelta, now: datetime) -> Conditions:
    """Return the conditions for archive operations that are over, and that no message names.

    While a message names it, it tells who archived the message, and can be undone.
    """
    named = exists().where(messages.archive_operation_id == archives.operation_id)
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
