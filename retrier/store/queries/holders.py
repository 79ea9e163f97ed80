"""Who is the processor."""

from dataclasses import dataclass

from sqlalchemy import select

from retrier.store.engine.transaction import StoredRow, Transaction
from retrier.store.schema import processor_lease


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A process that wants to be the processor. `process_started` tells reused pids apart."""

    session_id: str
    host: str
    pid: int
    process_started: str


def find_holder(tx: Transaction) -> Holder | None:
    """Return who holds the lease now; None when it is free or has run out."""
    row = tx.execute(select(processor_lease)).one_or_none()
    if row is None or row.session_id is None or row.expires_at <= tx.now:
        return None
    return holder_of(row)


def holder_of(row: StoredRow) -> Holder:
    """Return whom the row of the lease names."""
    return Holder(
        session_id=row.session_id, host=row.host, pid=row.pid, process_started=row.process_started
    )
