"""Sweeping: what is kept for a while is deleted, a thousand rows in each transaction.

All at once it could take longer than a statement may, and would then never be done.
"""

from collections.abc import Callable
from datetime import timedelta

from retrier.store.engine.database import Database
from retrier.store.engine.transaction import Transaction
from retrier.store.tables import event_log, staging_ids

_AT_ONCE = 1000

Sweep = Callable[[Transaction, timedelta, int], int]


def sweep_events(db: Database, *, older_than: timedelta) -> int:
    """Delete events older than that; return how many. Raises DatabaseUnavailable."""
    return _sweep_all(db, event_log.sweep, older_than)


def sweep_staging_ids(db: Database, *, older_than: timedelta) -> int:
    """Delete staging ids older than that; return how many.

    The id of a batch that is alive stays, however long that takes. Raises DatabaseUnavailable.
    """
    return _sweep_all(db, staging_ids.sweep, older_than)


def _sweep_all(db: Database, sweep: Sweep, older_than: timedelta) -> int:
    def sweep_some(tx: Transaction) -> int:
        return sweep(tx, older_than, _AT_ONCE)

    swept = deleted = db.transact(sweep_some)
    while deleted == _AT_ONCE:
        deleted = db.transact(sweep_some)
        swept += deleted
    return swept
