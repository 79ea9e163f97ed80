"""Who archived messages, and when: the operation that took each of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select

from retrier.store.engine.database import reading
from retrier.store.engine.transaction import Transaction
from retrier.store.schema import archive_operations, failed_messages

messages = failed_messages.c
operations = archive_operations.c


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedBy:
    """The operation that archived a message: who asked for it, when, and why."""

    operation_id: str
    requested_by: str
    why: str | None
    asked_at: datetime


@reading
def find_archivers(tx: Transaction, unique_ids: Sequence[str]) -> Mapping[str, ArchivedBy]:
    """Return by which operations these messages are archived.

    Left out is what no operation archived, or one that is deleted for its age. Raises
    DatabaseUnavailable.
    """
    query = (
        select(messages.unique_message_id, archive_operations)
        .join_from(
            failed_messages,
            archive_operations,
            operations.operation_id == messages.archive_operation_id,
        )
        .where(tx.sql.member(messages.unique_message_id, unique_ids))
    )
    return {
        row.unique_message_id: ArchivedBy(
            operation_id=row.operation_id,
            requested_by=row.requested_by,
            why=row.why,
            asked_at=row.created_at,
        )
        for row in tx.execute(query)
    }
