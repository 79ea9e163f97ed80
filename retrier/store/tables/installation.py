"""The installation (`installation`): a random id by which two Retriers on one broker differ."""

from uuid import uuid4

from sqlalchemy import select

from retrier.store.engine.transaction import Transaction
from retrier.store.schema import installation


def get(tx: Transaction) -> str:
    """Return this database's installation id, making it at the first call."""
    insert = tx.sql.insert(installation).values(
        id=1, installation_id=str(uuid4()), created_at=tx.now
    )
    # An update, also of an existing row: only a write proves that writes work.
    tx.execute(
        insert.on_conflict_do_update(
            index_elements=["id"], set_={"installation_id": installation.c.installation_id}
        )
    )
    return str(find(tx))


def find(tx: Transaction) -> str | None:
    """Return it; None before it was made."""
    return tx.execute(select(installation.c.installation_id)).scalar_one_or_none()
