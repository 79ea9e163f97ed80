"""The installation (`installation`): a random id that marks its copies on the broker."""

from uuid import uuid4

from sqlalchemy import select

from retrier.store.engine.transaction import Transaction
from retrier.store.schema import installation


def get(tx: Transaction) -> str:
    """Return this database's installation id, making it at the first call."""
    insert = tx.sql.insert(installation).values(
        id=1, installation_id=str(uuid4()), created_at=tx.now
    )
    # Update an existing row, too: `probe_write` needs a write, to prove that writes work.
    tx.execute(
        insert.on_conflict_do_update(
            index_elements=["id"], set_={"installation_id": installation.c.installation_id}
        )
    )
    return str(find(tx))


def find(tx: Transaction) -> str | None:
    """Return the installation id; None before it was made."""
    return tx.execute(select(installation.c.installation_id)).scalar_one_or_none()
