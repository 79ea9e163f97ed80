"""Each process writes that it runs, and what it should have in common with the others."""

from dataclasses import asdict

from retrier.domain.processes import RunningProcess
from retrier.store.engine.database import writing
from retrier.store.engine.transaction import Transaction
from retrier.store.queries.processes import SILENT
from retrier.store.tables import processes


@writing
def note_process(tx: Transaction, process: RunningProcess) -> None:
    """Write that a process runs, and forget those that have ended. Raises DatabaseUnavailable."""
    lists = {"roles": list(process.roles), "error_queues": list(process.error_queues)}
    processes.put(tx, {**asdict(process), **lists})
    processes.forget_silent(tx, SILENT)


@writing
def forget_process(tx: Transaction, session_id: str) -> None:
    """Forget a process that ends. Raises DatabaseUnavailable."""
    processes.forget(tx, session_id)
