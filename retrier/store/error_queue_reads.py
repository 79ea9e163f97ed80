"""How far each process has read each error queue (`error_queue_reads`), and what was not read."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta

from sqlalchemy import delete, exists, func, select, update

from retrier.domain.error_queue_reads import QueueRead, why_unread
from retrier.domain.retry_operation import CanaryState
from retrier.store.engine.database import reading, writing
from retrier.store.engine.transaction import Transaction
from retrier.store.lease import Holder
from retrier.store.schema import error_queue_reads, retry_operation_canaries

reads = error_queue_reads.c


KEPT = timedelta(days=1)
"""A queue that nobody has read for so long is an error queue no more."""


def _put(
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


def _stop(tx: Transaction, session_ids: Sequence[str]) -> None:
    """Write that these processes read no more, and have nothing in hand."""
    if session_ids:
        those = update(error_queue_reads).where(tx.sql.member(reads.session_id, session_ids))
        tx.execute(those.values(stopped=True, seen_at=tx.now))


_SHOWN = (reads.queue, reads.host, reads.seen_at, reads.level_at, reads.ready, reads.stopped)


def find_why_unread(tx: Transaction, moment: datetime) -> str | None:
    """Say why something from before `moment` may be unread; None if all is read."""
    found = [QueueRead(**row) for row in tx.execute(select(*_SHOWN)).mappings()]
    return why_unread(found, min(moment, tx.now), tx.now)


@reading
def is_any_canary_waiting(tx: Transaction) -> bool:
    """Say whether a canary waits for its verdict. Raises DatabaseUnavailable."""
    waiting = retry_operation_canaries.c.state == CanaryState.WAITING
    return bool(tx.execute(select(exists().where(waiting))).scalar_one())


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
    names = (reads.session_id, reads.host, reads.pid, reads.process_started)
    others = (reads.host == process.host, reads.session_id != process.session_id, ~reads.stopped)
    rows = tx.execute(select(*names).where(*others).distinct()).mappings().all()
    found = [Holder(**row) for row in rows]
    _stop(tx, [each.session_id for each in found if is_dead(each)])
    _put(tx, asdict(process), seen)
    tx.execute(delete(error_queue_reads).where(reads.seen_at < tx.now - KEPT))
    return tx.now


@writing
def note_stopped(tx: Transaction, session_id: str) -> None:
    """Write that a process reads no more. Raises DatabaseUnavailable."""
    _stop(tx, [session_id])
