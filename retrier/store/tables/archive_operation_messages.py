"""The ids named in a request to archive, unarchive or resolve (`archive_operation_messages`)."""

from collections.abc import Iterable

from retrier.store.engine.transaction import Transaction
from retrier.store.schema import archive_operation_messages


def add(tx: Transaction, operation_id: str, unique_ids: Iterable[str]) -> None:
    """Add the ids in the order given, each once."""
    rows = [
        {"operation_id": operation_id, "position": position, "unique_message_id": unique_id}
        for position, unique_id in enumerate(dict.fromkeys(unique_ids), start=1)
    ]
    if rows:
        tx.execute(archive_operation_messages.insert(), rows)
