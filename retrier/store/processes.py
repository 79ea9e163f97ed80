"""Processes that run (`processes`): each writes its own row again and again."""

from dataclasses import asdict
from datetime import timedelta

from sqlalchemy import delete, select

from retrier.domain.processes import RunningProcess
from retrier.store.engine.database import reading, writing
from retrier.store.engine.transaction import Transaction
from retrier.store.schema import processes

rows = processes.c


SILENT = timedelta(seconds=60)
"""A process that has written nothing for so long has ended: it writes every 10 seconds."""

_SHOWN = (
    rows.session_id,
    rows.instance,
    rows.host,
    rows.pid,
    rows.roles,
    rows.version,
    rows.set_hash,
    rows.error_queues,
)


@reading
def list_processes(tx: Transaction) -> tuple[RunningProcess, ...]:
    """Return the processes that run now. Raises DatabaseUnavailable."""
    alive = select(*_SHOWN).where(rows.seen_at >= tx.now - SILENT).order_by(rows.host, rows.pid)
    lists = ("roles", "error_queues")
    return tuple(
        RunningProcess(**{**row, **{name: tuple(row[name]) for name in lists}})
        for row in tx.execute(alive).mappings()
    )


@writing
def note_process(tx: Transaction, process: RunningProcess) -> None:
    """Write that a process runs, and forget those that have ended. Raises DatabaseUnavailable."""
    lists = {"roles": list(process.roles), "error_queues": list(process.error_queues)}
    seen = {**asdict(process), **lists, "seen_at": tx.now}
    insert = tx.sql.insert(processes).values(**seen)
    tx.execute(insert.on_conflict_do_update(index_elements=["session_id"], set_=seen))
    tx.execute(delete(processes).where(rows.seen_at < tx.now - SILENT))


@writing
def forget_process(tx: Transaction, session_id: str) -> None:
    """Forget a process that ends. Raises DatabaseUnavailable."""
    tx.execute(delete(processes).where(rows.session_id == session_id))
