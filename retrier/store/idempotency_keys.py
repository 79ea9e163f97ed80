"""Idempotency keys: those of all kinds of requests share one namespace, over several tables."""

from sqlalchemy import Table, select

from retrier.errors import KeyReused
from retrier.store.engine.transaction import StoredRow, Transaction
from retrier.store.schema import archive_operations, retry_operations

_KEYED = (retry_operations, archive_operations)


def find_keyed(tx: Transaction, key: str, own: Table) -> StoredRow | None:
    """Return the row of this table that has the key; None if no request has it.

    Nobody else can take the key until this transaction ends. Call it before locking any row.
    Raises KeyReused if it is in another table: that is a request of another kind.
    """
    tx.sql.reserve_key(tx.conn, key)
    # Its own first: a request that is sent again is found by one query.
    for table in (own, *(other for other in _KEYED if other is not own)):
        row = tx.execute(select(table).where(table.c.idempotency_key == key)).first()
        if row is not None and table is not own:
            raise reused(row)
        if row is not None:
            return row
    return None


def reused(row: StoredRow) -> KeyReused:
    """Return the error that says which request had the key."""
    return KeyReused(f"This Idempotency-Key was used for another request: {row.originator}.")
