"""Processes write how far they have read their error queues."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import datetime

from retrier.store.engine.database import writing
from retrier.store.engine.transaction import Transaction
from retrier.store.tables import error_queue_reads
from retrier.store.tables.processor_lease import Holder


@writing
def note_reads(
    tx: Transaction,
    process: Holder,
    seen: Mapping[str, Mapping[str, object]],
    is_dead: Callable[[Holder], bool],
) -> datetime:
    """Write `ready` and `level_at` by queue; return when, by the clock of the database.

    A process of the same host that is certainly dead has nothing in hand any more: the broker has
    seen its connection end. Raises DatabaseUnavailable.
    """
    others = error_queue_reads.find_others(tx, process.session_id, process.host)
    found = [Holder(**row._mapping) for row in others]  # noqa: SLF001 - SQLAlchemy's own name
    error_queue_reads.stop(tx, [each.session_id for each in found if is_dead(each)])
    error_queue_reads.put(tx, asdict(process), seen)
    error_queue_reads.delete_old(tx)
    return tx.now


@writing
def note_stopped(tx: Transaction, session_id: str) -> None:
    """Write that a process reads no more. Raises DatabaseUnavailable."""
    error_queue_reads.stop(tx, [session_id])
