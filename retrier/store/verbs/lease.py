"""The processor's lease: one row, an epoch that fences commits, the database's clock."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache, partial

from sqlalchemy import Connection, Executable, Row, bindparam, select, update

from retrier.errors import LeaseLost
from retrier.store.database import Database
from retrier.store.schema import processor_lease
from retrier.store.sql_dialect import SqlDialect

lease = processor_lease.c


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A process that wants to be the processor. `process_started` tells reused pids apart."""

    session_id: str
    host: str
    pid: int
    process_started: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """The right to commit as the processor, as long as the epoch is still this one."""

    epoch: int
    duration: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldByAnother:
    """Somebody else is the processor."""

    host: str
    pid: int
    renewed_at: datetime
    expires_at: datetime


def acquire_lease(
    db: Database,
    holder: Holder,
    duration: timedelta,
    is_dead: Callable[[Holder], bool],
    silent_since: datetime | None = None,
) -> Fence | HeldByAnother:
    """Take the lease if it is free, expired, ours, or held by a process known to be dead.

    Also if it was not renewed since `silent_since`: the caller has seen that for as long as the
    lease lasts. Raises DatabaseUnavailable.
    """
    return db.transact(partial(_acquire, db, holder, duration, is_dead, silent_since))


def renew_lease(db: Database, fence: Fence) -> None:
    """Extend the lease. Raises LeaseLost when another epoch began, or DatabaseUnavailable."""
    db.transact(partial(hold, db, fence=fence))


def release_lease(db: Database, fence: Fence) -> None:
    """Let the next processor in at once; nothing happens if the lease is lost already."""
    db.transact(partial(_release, fence))


def find_holder(db: Database, conn: Connection) -> Holder | None:
    """Return who holds the lease now; None when it is free or has run out."""
    row = conn.execute(select(processor_lease)).one_or_none()
    if row is None or row.session_id is None or row.expires_at <= db.sql.now(conn):
        return None
    return _holder_of(row)


def hold(db: Database, conn: Connection, fence: Fence) -> datetime:
    """Fence this transaction and renew the lease in it; return the database's time.

    Fenced by the epoch alone: a lease that ran out but was not taken is still ours. The row
    lock keeps a successor waiting until this transaction has ended. Raises LeaseLost.
    """
    known = {"fenced": fence.epoch, **db.sql.tell(conn, fence.duration)}
    moment: datetime | None = conn.execute(_renew(db.sql), known).scalar_one_or_none()
    if moment is None:
        raise LeaseLost(f"epoch {fence.epoch} is over")
    return moment


@cache
def _renew(sql: SqlDialect) -> Executable:
    now, later = sql.moments
    return (
        update(processor_lease)
        .where(
            lease.id == 1,
            lease.epoch == bindparam("fenced"),
            lease.session_id.is_not(None),
        )
        .values(renewed_at=now, expires_at=later)
        .returning(lease.renewed_at)
    )


def _release(fence: Fence, conn: Connection) -> None:
    conn.execute(
        update(processor_lease)
        .where(lease.epoch == fence.epoch)
        .values(session_id=None, expires_at=None)
    )


def _acquire(
    db: Database,
    holder: Holder,
    duration: timedelta,
    is_dead: Callable[[Holder], bool],
    silent_since: datetime | None,
    conn: Connection,
) -> Fence | HeldByAnother:
    conn.execute(db.sql.insert(processor_lease).values(id=1, epoch=0).on_conflict_do_nothing())
    row = conn.execute(select(processor_lease).with_for_update()).one()
    now = db.sql.now(conn)
    is_silent = row.renewed_at is not None and row.renewed_at == silent_since
    if not is_silent and _is_taken(row, holder, now, is_dead):
        return HeldByAnother(
            host=row.host,
            pid=row.pid,
            renewed_at=row.renewed_at,
            expires_at=row.expires_at,
        )
    epoch = row.epoch + 1
    conn.execute(
        update(processor_lease).values(
            epoch=epoch,
            session_id=holder.session_id,
            host=holder.host,
            pid=holder.pid,
            process_started=holder.process_started,
            acquired_at=now,
            renewed_at=now,
            expires_at=now + duration,
        )
    )
    return Fence(epoch=epoch, duration=duration)


def _is_taken(
    row: Row[tuple[object, ...]],
    holder: Holder,
    now: datetime,
    is_dead: Callable[[Holder], bool],
) -> bool:
    if row.session_id is None or row.session_id == holder.session_id or row.expires_at <= now:
        return False
    return not is_dead(_holder_of(row))


def _holder_of(row: Row[tuple[object, ...]]) -> Holder:
    return Holder(
        session_id=row.session_id, host=row.host, pid=row.pid, process_started=row.process_started
    )
