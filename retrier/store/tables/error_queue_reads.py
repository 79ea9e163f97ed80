"""How far each process has read each error queue (`error_queue_reads`)."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

from sqlalchemy import delete, func, select, update

from retrier.store.engine.transaction import StoredRow, Transaction
from retrier.store.schema import error_queue_reads

reads = error_queue_reads.c

KEPT = timedelta(days=1)
"""A queue that nobody has read for so long is an error queue no more."""


def put(
    tx: Transaction, process: Mapping[str, object], seen: Mapping[str, Mapping[str, object]]
) -> None:
    """Write what a process sees of its queues; `level_at` stays where nothing newer is known."""
    if not seen:
        return
    insert = tx.sql.insert(error_queue_reads)
    rows = [
        {**process, "queue": queue, "seen_at": tx.now, **each}
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


def find_others(tx: Transaction, session_id: str, host: str) -> Sequence[StoredRow]:
    """Return the other processes of a host that have not ended in good order, as far as known."""
    names = (reads.session_id, reads.host, reads.pid, reads.process_started)
    others = (reads.host == host, reads.session_id != session_id, ~reads.stopped)
    return tx.execute(select(*names).where(*others).distinct()).all()


def stop(tx: Transaction, session_ids: Sequence[str]) -> None:
    """Write that these processes read no more, and have nothing in hand."""
    if session_ids:
        those = update(error_queue_reads).where(tx.sql.member(reads.session_id, session_ids))
        tx.execute(those.values(stopped=True, seen_at=tx.now))


def delete_old(tx: Transaction) -> None:
    """Delete what was written long ago."""
    tx.execute(delete(error_queue_reads).where(reads.seen_at < tx.now - KEPT))
