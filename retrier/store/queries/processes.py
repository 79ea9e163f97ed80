"""Which processes run on this database."""

from datetime import timedelta

from sqlalchemy import select

from retrier.domain.processes import RunningProcess
from retrier.store.engine.database import reading
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
