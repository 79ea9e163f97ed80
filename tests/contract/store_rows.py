"""Looks at what the store holds, past its own verbs, and feeds it without ceremony."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Table, select

from retrier.domain.failed_message import Failure, Received
from retrier.domain.recording import Receipt
from retrier.store.engine.database import Database
from retrier.store.recording import record_received
from retrier.store.schema import failed_messages, ledger, metadata
from tests.support.factories import failure
from tests.support.stored import select_claims, select_messages

INSTANCE = "here"


def record(db: Database, *received: Received) -> Receipt:
    """Record one received batch."""
    return record_received(db, received, instance=INSTANCE).receipt


def again(first: Failure, **changes: Any) -> Failure:
    """Make another failure of the same message."""
    same = {"message_id": first.message_id, "body": first.body, "stamped_id": first.stamped_id}
    return failure(**(same | changes))


def redelivered(delivery: Failure) -> Failure:
    """Return the same delivery as the broker brings it again."""
    return replace(delivery, redelivered=True)


def rows(db: Database, table: Table) -> list[dict[str, Any]]:
    """Return all rows of a table, in the order of its key."""
    query = select(table).order_by(*table.primary_key.columns)
    return select_rows(db, query)


def select_rows(db: Database, query: Any) -> list[dict[str, Any]]:
    """Return rows as dictionaries."""
    return db.read(lambda tx: [dict(row) for row in tx.execute(query).mappings()])


def messages(db: Database) -> dict[str, dict[str, Any]]:
    """Return all failed messages by their unique ids."""
    return {row["unique_message_id"]: row for row in select_rows(db, select_messages())}


def message(db: Database, unique_message_id: str) -> dict[str, Any]:
    """Return one failed message."""
    return messages(db)[unique_message_id]


def only_message(db: Database) -> dict[str, Any]:
    """Return the one failed message there is."""
    (found,) = select_rows(db, select_messages())
    return found


def claims(db: Database) -> dict[str, dict[str, Any]]:
    """Return all claims by the messages they are of."""
    return {row["unique_message_id"]: row for row in select_rows(db, select_claims())}


def ledger_entries(db: Database) -> dict[str, int]:
    """Return the ledger's entries over all instances."""
    entries: dict[str, int] = {}
    for row in rows(db, ledger):
        entries[row["entry"]] = entries.get(row["entry"], 0) + row["count"]
    return entries


def untold(db: Database) -> int:
    """Return how many deliveries were taken off without being counted as anything."""
    entries = ledger_entries(db)
    return entries.pop("taken_off", 0) - sum(entries.values())


def everything_but(db: Database, *left_out: Table) -> dict[str, Sequence[str]]:
    """Return what all other tables hold, in a form that can be compared."""
    return {
        table.name: sorted(str(sorted(row.items())) for row in rows(db, table))
        for table in metadata.sorted_tables
        if table not in left_out
    }


def set_columns(db: Database, unique_message_id: str, **values: Any) -> None:
    """Put a failed message into a state that other verbs would bring it to."""
    key = failed_messages.c.unique_message_id == unique_message_id
    with db.engine.begin() as conn:
        conn.execute(failed_messages.update().where(key).values(**values))
