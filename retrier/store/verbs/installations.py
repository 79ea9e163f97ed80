"""The installation and the database itself: its id, and whether it can be read and written."""

from collections.abc import Sequence

from sqlalchemy import select

from retrier.store.engine.transaction import Transaction
from retrier.store.engine.verb import reading, writing
from retrier.store.tables import installation, staging_ids
from retrier.store.verbs.leases import fenced


@writing
def get_installation_id(tx: Transaction) -> str:
    """Return this database's installation id, making it at the first call."""
    return installation.get(tx)


@writing
def probe_write(tx: Transaction) -> None:
    """Prove that the database takes writes. Raises DatabaseUnavailable."""
    installation.get(tx)


@reading
def probe_read(tx: Transaction) -> None:
    """Prove that the database answers. Raises DatabaseUnavailable."""
    tx.execute(select(1))


@fenced
def record_staging_ids(tx: Transaction, ids: Sequence[str]) -> None:
    """Write these staging ids down; one that is there is as if it were made now.

    Raises LeaseLost, DatabaseUnavailable.
    """
    staging_ids.add(tx, ids)
