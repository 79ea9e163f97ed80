"""Upkeep: the installation id, probes of the database, sweeps, and stuck sessions."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from sqlalchemy import select, text

from retrier.store.engine.database import Database, reading, writing
from retrier.store.engine.transaction import Transaction
from retrier.store.tables import breaker_counts, event_log, installation, staging_ids
from retrier.store.verbs.leases import fenced

_AT_ONCE = 1000

Sweep = Callable[[Transaction, datetime, int], int]


def sweep_events(db: Database, *, older_than: timedelta, as_of: datetime | None = None) -> int:
    """Delete events that were older than that `as_of` then, and are now; return how many.

    Raises DatabaseUnavailable.
    """
    return _sweep_all(db, event_log.sweep, older_than, as_of)


def sweep_staging_ids(db: Database, *, older_than: timedelta, as_of: datetime | None = None) -> int:
    """Delete staging ids that were older than that `as_of` then, and are now; return how many.

    The id of a batch that exists stays, however old it is. Raises DatabaseUnavailable.
    """
    return _sweep_all(db, staging_ids.sweep, older_than, as_of)


@writing
def sweep_breaker_counts(
    tx: Transaction, *, older_than: timedelta, as_of: datetime | None = None
) -> int:
    """Delete what was counted for breakers before that; return how many rows.

    Each thread deletes its own: these are of threads that have ended. Raises DatabaseUnavailable.
    """
    return breaker_counts.sweep(tx, tx.agreed(as_of) - older_than)


def _sweep_all(db: Database, sweep: Sweep, older_than: timedelta, as_of: datetime | None) -> int:
    def sweep_some(tx: Transaction) -> int:
        return sweep(tx, tx.agreed(as_of) - older_than, _AT_ONCE)

    swept = deleted = db.transact(sweep_some)
    while deleted == _AT_ONCE:
        deleted = db.transact(sweep_some)
        swept += deleted
    return swept


# A client that stops in the middle of a pipeline (several statements sent at once) makes the server
# wait, "active" or "idle in transaction"; neither statement_timeout nor
# idle_in_transaction_session_timeout runs then. The same with a result that the client never reads.
_END = text("""
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE datname = current_database() AND usename = current_user
  AND application_name = current_setting('application_name') AND pid <> pg_backend_pid()
  AND state <> 'idle' AND wait_event_type = 'Client'
  AND greatest(query_start, state_change) < clock_timestamp() - :limit
""")


def end_stuck_sessions(db: Database, *, older_than: timedelta) -> int:
    """End sessions whose server has waited that long for the client; return how many.

    A frozen process, or one cut off behind a proxy that keeps the connection open, would hold its
    locks until it is back: nobody could take over its lease. SQLite has no such sessions.
    Raises DatabaseUnavailable.
    """
    return 0 if db.is_sqlite else _end(db, older_than)


@writing
def _end(tx: Transaction, older_than: timedelta) -> int:
    return int(tx.execute(_END, {"limit": older_than}).scalar_one())


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
    """Store these staging ids; one that exists gets a new time, so that it is kept longer.

    Raises LeaseLost, DatabaseUnavailable.
    """
    staging_ids.add(tx, ids)
