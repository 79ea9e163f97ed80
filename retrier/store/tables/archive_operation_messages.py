"""The ids named in a request to archive, unarchive or resolve (`archive_operation_messages`)."""

from collections.abc import Mapping, Sequence
from functools import cache

from sqlalchemy import Update, bindparam, update

from retrier.store.engine.transaction import Transaction
from retrier.store.schema import archive_operation_messages

named = archive_operation_messages.c


def add(tx: Transaction, operation_id: str, unique_ids: Sequence[str]) -> None:
    """Add the ids in the order given; the caller gives each once."""
    rows = [
        {"operation_id": operation_id, "position": position, "unique_message_id": unique_id}
        for position, unique_id in enumerate(unique_ids, start=1)
    ]
    tx.sql.add_rows(tx.conn, archive_operation_messages, rows)


def note_refused(tx: Transaction, operation_id: str, refused: Mapping[int, str]) -> None:
    """Note why the messages at these positions were left as they were."""
    rows = [{"at": position, "why": why} for position, why in sorted(refused.items())]
    if rows:
        tx.execute(_note_refused(), [{"operation": operation_id, **row} for row in rows])


@cache
def _note_refused() -> Update:
    return (
        update(archive_operation_messages)
        .where(named.operation_id == bindparam("operation"), named.position == bindparam("at"))
        .values(refused_because=bindparam("why"))
    )
