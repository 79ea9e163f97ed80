"""The processor's lease (`processor_lease`): one row, whose epoch fences commits."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache

from sqlalchemy import Executable, bindparam, select, update

from retrier.store.engine.sql_dialect import SqlDialect
from retrier.store.engine.transaction import StoredRow, Transaction
from retrier.store.schema import processor_lease

lease = processor_lease.c

_OURS = (
    lease.id == 1,
    lease.epoch == bindparam("fenced"),
    lease.session_id.is_not(None),
)
"""The lease has this epoch, and nobody has given it back."""
_SHARE = select(lease.epoch).where(*_OURS).with_for_update(read=True, key_share=True)


def lock(tx: Transaction) -> StoredRow:
    """Lock the only row and return it; the first call makes it."""
    tx.execute(tx.sql.insert(processor_lease).values(id=1, epoch=0).on_conflict_do_nothing())
    return tx.execute(select(processor_lease).with_for_update()).one()


def renew(tx: Transaction, epoch: int, duration: timedelta) -> datetime | None:
    """Extend the lease of this epoch; return the database's time, None if the epoch is over.

    Only the epoch counts: a lease that ran out but that nobody took is still ours. The row lock
    makes a successor wait until this transaction has ended.
    """
    known = {"fenced": epoch, **tx.sql.tell(tx.conn, duration)}
    moment: datetime | None = tx.execute(_renew(tx.sql), known).scalar_one_or_none()
    return moment


def share(tx: Transaction, epoch: int) -> bool:
    """Make a takeover wait until this transaction has ended; false if the epoch is over.

    Renewals pass on PostgreSQL: FOR KEY SHARE conflicts only with changes of columns that a unique
    index has, and with the FOR UPDATE of a takeover. On SQLite nobody else writes meanwhile.
    """
    return tx.execute(_SHARE, {"fenced": epoch}).first() is not None


def take(tx: Transaction, epoch: int, duration: timedelta, holder: dict[str, object]) -> None:
    """Give the lease to a holder under a new epoch; the caller has locked the row."""
    tx.execute(
        update(processor_lease).values(
            epoch=epoch,
            acquired_at=tx.now,
            renewed_at=tx.now,
            expires_at=tx.now + duration,
            **holder,
        )
    )


def release(tx: Transaction, epoch: int) -> None:
    """Let the next processor in at once; nothing happens if the epoch is over already."""
    tx.execute(
        update(processor_lease).where(lease.epoch == epoch).values(session_id=None, expires_at=None)
    )


@cache
def _renew(sql: SqlDialect) -> Executable:
    now, later = sql.moments
    return (
        update(processor_lease)
        .where(*_OURS)
        .values(renewed_at=now, expires_at=later)
        .returning(lease.renewed_at)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A process that is or wants to be the processor; reused pids differ in `process_started`."""

    session_id: str
    host: str
    pid: int
    process_started: str


def find_holder(tx: Transaction) -> Holder | None:
    """Return the holder of the lease; None if it is free or has expired."""
    row = tx.execute(select(processor_lease)).one_or_none()
    if row is None or row.session_id is None or row.expires_at <= tx.now:
        return None
    return holder_of(row)


def holder_of(row: StoredRow) -> Holder:
    """Return the holder that the row of the lease names."""
    return Holder(
        session_id=row.session_id, host=row.host, pid=row.pid, process_started=row.process_started
    )
