"""The processor's lease (`processor_lease`): one row, whose epoch fences commits.

Who is the processor, and transactions that only the processor may commit.
"""

from collections.abc import Callable
from dataclasses import asdict, field
from datetime import datetime, timedelta
from functools import cache, wraps
from typing import Concatenate, ParamSpec, TypeVar

from sqlalchemy import Executable, bindparam, select, update

from retrier.domain.values import dataclass
from retrier.errors import LeaseLost
from retrier.store.engine.database import Database, InTransaction, writing
from retrier.store.engine.sql_dialect import SqlDialect
from retrier.store.engine.transaction import HoldWatch, LeaseHold, StoredRow, Transaction
from retrier.store.revisions import refuse_newer
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


P = ParamSpec("P")
T = TypeVar("T")


LONGEST_HOLD = 0.5
"""Seconds: no transaction is to hold the lease for longer, whatever is configured or broken.

A successor waits for it, and so does each renewal; on SQLite everybody waits who writes.
"""


def notify_nobody(_hold: LeaseHold) -> None:
    """Let nobody know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """The right to commit as the processor while the lease has this epoch.

    `told` is told of each transaction that has held the lease, when it is over.
    """

    epoch: int
    duration: timedelta
    told: Callable[[LeaseHold], None] = field(default=notify_nobody, repr=False, compare=False)


def fenced(body: InTransaction[P, T]) -> Callable[Concatenate[Database, Fence, P], T]:
    """Make a verb of it: one transaction that renews the lease, and fails if the epoch is over.

    The verb raises LeaseLost and DatabaseUnavailable.
    """

    @wraps(body)
    def verb(db: Database, fence: Fence, /, *args: P.args, **kwargs: P.kwargs) -> T:
        watch: HoldWatch | None = None

        @wraps(body)
        def run(tx: Transaction) -> T:
            nonlocal watch
            hold(tx, fence)
            watch = tx.watch
            return body(tx, *args, **kwargs)

        try:
            return db.transact(run)
        finally:
            # Behind the commit, which is part of it, and also if it failed: that took long, too.
            if watch is not None:
                fence.told(watch.end(body.__name__))

    return verb


def hold(tx: Transaction, fence: Fence) -> None:
    """Renew the lease in this transaction; `tx.now` is the time of that. Raises LeaseLost.

    Only the epoch counts: a lease that ran out but that nobody took is still ours. The row lock
    makes a successor wait until this transaction has ended.
    """
    known = {"fenced": fence.epoch, **tx.sql.tell(tx.conn, fence.duration)}
    moment: datetime | None = tx.execute(_renew(tx.sql), known).scalar_one_or_none()
    if moment is None:
        raise LeaseLost(f"epoch {fence.epoch} is over")
    tx.hold(fence.epoch, moment)


def share_lease(tx: Transaction, fence: Fence) -> None:
    """Make sure that the lease stays ours until this transaction ends, without renewing it.

    For transactions that take long: `hold` would make every window of Forwarding wait for them.
    A takeover waits until this transaction has ended, and renewals pass on PostgreSQL: FOR KEY
    SHARE conflicts only with changes of columns that a unique index has, and with the FOR UPDATE
    of a takeover. On SQLite nobody else writes meanwhile. Raises LeaseLost.
    """
    if tx.execute(_SHARE, {"fenced": fence.epoch}).first() is None:
        raise LeaseLost(f"epoch {fence.epoch} is over")


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldByAnother:
    """The processor is another process, named here."""

    host: str
    pid: int
    renewed_at: datetime
    expires_at: datetime


@writing
def acquire_lease(
    tx: Transaction,
    holder: Holder,
    duration: timedelta,
    is_dead: Callable[[Holder], bool],
    silent_since: datetime | None = None,
) -> Fence | HeldByAnother:
    """Take the lease if it is free, expired, ours, or held by a process known to be dead.

    Also if it was last renewed at `silent_since`: the caller has measured a whole lease without
    renewal by its own clock, as the database's may be set back. Raises DatabaseUnavailable, also
    where a newer version has upgraded the database.
    """
    row = lock(tx)
    refuse_newer(tx)
    is_silent = row.renewed_at is not None and row.renewed_at == silent_since
    if not is_silent and _is_taken(row, holder, tx.now, is_dead):
        return HeldByAnother(
            host=row.host,
            pid=row.pid,
            renewed_at=row.renewed_at,
            expires_at=row.expires_at,
        )
    epoch = row.epoch + 1
    tx.execute(
        update(processor_lease).values(
            epoch=epoch,
            acquired_at=tx.now,
            renewed_at=tx.now,
            expires_at=tx.now + duration,
            **asdict(holder),
        )
    )
    return Fence(epoch=epoch, duration=duration)


@fenced
def renew_lease(tx: Transaction) -> None:
    """Extend the lease. Raises LeaseLost when another epoch began, or DatabaseUnavailable."""
    # Nothing to do: `fenced` has renewed it already.


@writing
def release_lease(tx: Transaction, fence: Fence) -> None:
    """Let the next processor in at once; nothing happens if the lease is lost already."""
    ours = update(processor_lease).where(lease.epoch == fence.epoch)
    tx.execute(ours.values(session_id=None, expires_at=None))


def end_lease(tx: Transaction) -> None:
    """End whatever lease there is: its holder commits nothing more. Waits for what it is at."""
    tx.execute(
        update(processor_lease).values(epoch=lease.epoch + 1, session_id=None, expires_at=None)
    )


def _is_taken(
    row: StoredRow, holder: Holder, now: datetime, is_dead: Callable[[Holder], bool]
) -> bool:
    if row.session_id is None or row.session_id == holder.session_id or row.expires_at <= now:
        return False
    return not is_dead(holder_of(row))
