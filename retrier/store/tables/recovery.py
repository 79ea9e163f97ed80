"""The recovery after a restore (`recovery`): at most one row, while nothing is presumed."""

from datetime import datetime

from sqlalchemy import delete

from retrier.store.engine.transaction import Transaction
from retrier.store.schema import recovery


def put(tx: Transaction, since: datetime, who: str) -> None:
    """Begin one; of one that is under way only the time of the backup is changed."""
    row = {"id": 1, "since": since, "begun_at": tx.now, "begun_by": who}
    insert = tx.sql.insert(recovery).values(row)
    tx.execute(insert.on_conflict_do_update(index_elements=["id"], set_={"since": since}))


def remove(tx: Transaction) -> bool:
    """End it; false if none is under way."""
    return tx.execute(delete(recovery)).rowcount > 0
