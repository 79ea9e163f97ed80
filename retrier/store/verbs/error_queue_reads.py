"""Processes write how far they have read their error queues."""

from collections.abc import Mapping
from datetime import datetime

from retrier.store.engine.database import writing
from retrier.store.engine.transaction import Transaction
from retrier.store.tables import error_queue_reads


@writing
def note_reads(
    tx: Transaction, session_id: str, host: str, seen: Mapping[str, Mapping[str, object]]
) -> datetime:
    """Write `ready` and `level_at` by queue; return when, by the clock of the database.

    Raises DatabaseUnavailable.
    """
    error_queue_reads.put(tx, session_id, host, seen)
    error_queue_reads.delete_old(tx)
    return tx.now


@writing
def note_stopped(tx: Transaction, session_id: str) -> None:
    """Write that a process reads no more. Raises DatabaseUnavailable."""
    error_queue_reads.stop(tx, session_id)
