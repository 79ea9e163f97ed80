"""The ledger: deliveries counted as they happen, never computed from other tables."""

from collections.abc import Mapping

from retrier.store.engine.transaction import Transaction
from retrier.store.schema import ledger


def count(tx: Transaction, instance: str, counts: Mapping[str, int]) -> None:
    """Add to this instance's entries; instances share no row, so none waits for another."""
    rows = [
        {"instance": instance, "entry": entry, "count": number}
        for entry, number in sorted(counts.items())
        if number
    ]
    if not rows:
        return
    statement = tx.sql.insert(ledger)
    tx.execute(
        statement.on_conflict_do_update(
            index_elements=["instance", "entry"],
            set_={"count": ledger.c.count + statement.excluded["count"]},
        ),
        rows,
    )
