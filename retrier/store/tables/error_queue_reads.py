"""How far each process has read each error queue (`error_queue_reads`)."""

from collections.abc import Mapping
from datetime import timedelta

from sqlalchemy import delete, func, update

from retrier.store.engine.transaction import Transaction
from retrier.store.schema import error_queue_reads

reads = error_queue_reads.c

KEPT = timedelta(days=1)
"""A queue that nobody has read for so long is an error queue no more."""


def put(
    tx: Transaction, session_id: str, host: str, seen: Mapping[str, Mapping[str, object]]
) -> None:
    """Write what a process sees of its queues; `level_at` stays where nothing newer is known."""
    if not seen:
        return
    insert = tx.sql.insert(error_queue_reads)
    rows = [
        {"session_id": session_id, "queue": queue, "host": host, "seen_at": tx.now, **each}
        for queue, each in sorted(seen.items())
    ]
    tx.execute(
        insert.on_conflict_do_update(
            index_elements=["session_id", "queue"],
            set_={
                "seen_at": insert.excluded.seen_at,
                "ready": insert.excluded.ready,
                "level_at": func.coalesce(insert.excluded.level_at, reads.level_at),
                "stopped": False,
            },
        ),
        rows,
    )


def stop(tx: Transaction, session_id: str) -> None:
    """Write that a process reads no more, and has nothing in hand."""
    mine = update(error_queue_reads).where(reads.session_id == session_id)
    tx.execute(mine.values(stopped=True, seen_at=tx.now))


def delete_old(tx: Transaction) -> None:
    """Delete what was written long ago."""
    tx.execute(delete(error_queue_reads).where(reads.seen_at < tx.now - KEPT))
