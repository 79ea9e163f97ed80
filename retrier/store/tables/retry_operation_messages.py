"""The ids named in a request (`retry_operation_messages`), and why some were skipped."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from sqlalchemy import Update, bindparam, update

from retrier.store.engine.sql_dialect import SqlDialect
from retrier.store.engine.transaction import Transaction
from retrier.store.schema import retry_operation_messages

named = retry_operation_messages.c


def add(
    tx: Transaction, operation_id: str, unique_ids: Iterable[str], numbers: Mapping[str, int]
) -> None:
    """Add the ids in the order given, each once; `numbers` has those of messages that exist."""
    rows = [
        {
            "operation_id": operation_id,
            "position": position,
            "unique_message_id": unique_id,
            "number": numbers.get(unique_id),
        }
        for position, unique_id in enumerate(dict.fromkeys(unique_ids), start=1)
    ]
    if rows:
        tx.execute(retry_operation_messages.insert(), rows)


def note_skipped(tx: Transaction, operation_id: str, skipped: Mapping[str, str]) -> None:
    """Store why each of these ids was skipped: of streams each has a reason of its own."""
    by_reason: dict[str, list[str]] = {}
    for unique_id, reason in skipped.items():
        by_reason.setdefault(reason, []).append(unique_id)
    rows = [
        {"operation": operation_id, "ids": ids, "reason": reason}
        for reason, ids in sorted(by_reason.items())
    ]
    if rows:
        tx.execute(_note_skipped(tx.sql), rows)


@cache
def _note_skipped(sql: SqlDialect) -> Update:
    """Make one statement that is sent once for each reason: there may be as many as ids."""
    return (
        update(retry_operation_messages)
        .where(
            named.operation_id == bindparam("operation"),
            sql.listed(named.unique_message_id, "ids"),
        )
        .values(skipped_because=bindparam("reason"))
    )


def note_dropped(tx: Transaction, operation_id: str, numbers: Sequence[int], reason: str) -> None:
    """Store why these messages were dropped after their claim; an earlier reason stays."""
    if numbers:
        tx.execute(
            update(retry_operation_messages)
            .where(
                named.operation_id == operation_id,
                tx.sql.member(named.number, numbers),
                named.skipped_because.is_(None),
            )
            .values(skipped_because=reason)
        )
