"""Windows of forwarding: what is finished is recorded, what comes next is stamped, in one go."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache, partial

from sqlalchemy import Connection, Select, bindparam, case, func, or_, select, update
from sqlalchemy.sql.dml import ReturningUpdate

from retrier.domain.failed_message import FailedMessageStatus
from retrier.domain.retry_batch import RetryBatch, StampedMessage, WindowResult
from retrier.store import claims as claim_rows
from retrier.store.database import Database
from retrier.store.lease import Fence, hold
from retrier.store.returned import lock_messages, share_cut_off_first, take_back
from retrier.store.schema import failed_message_retries, failed_messages, message_bodies
from retrier.store.schema.types import UtcTime
from retrier.store.sql_dialect import IN_BINARY, SqlDialect

messages = failed_messages.c
claims = failed_message_retries.c


def open_window(
    db: Database,
    fence: Fence,
    batch: RetryBatch,
    *,
    finished: WindowResult,
    unique_ids: Sequence[str],
) -> tuple[StampedMessage, ...]:
    """Record the window before, and stamp the claims of this one.

    One transaction, and it renews the lease. Only what is returned may be published: the rest
    has no claim of this batch any more or is recorded already. Raises LeaseLost,
    DatabaseUnavailable.
    """
    return db.transact(partial(_open_window, db, fence, batch, finished, unique_ids))


def load_bodies(db: Database, unique_ids: Sequence[str]) -> Mapping[str, bytes]:
    """Return the bodies of these messages, before their claims are stamped.

    Nothing is promised of them: a message that fails once more has another body, and its claim
    is over, so that it cannot be stamped any more. Raises DatabaseUnavailable.
    """
    known, query = {"ids": unique_ids}, _load_bodies(db.sql)
    rows = db.read(lambda conn: conn.execute(query, known).all())
    return {row[0]: row[1] for row in rows}


def _open_window(
    db: Database,
    fence: Fence,
    batch: RetryBatch,
    finished: WindowResult,
    unique_ids: Sequence[str],
    conn: Connection,
) -> tuple[StampedMessage, ...]:
    now = hold(db, conn, fence)
    _take_back(db, conn, batch, finished, now)
    return _record_and_stamp(db, conn, batch, finished.forwarded, unique_ids, now)


def _take_back(
    db: Database, conn: Connection, batch: RetryBatch, finished: WindowResult, now: datetime
) -> None:
    """Make what was reverted unresolved again; its messages are locked before any claim."""
    if not finished.reverted:
        return
    share_cut_off_first(db, conn)
    lock_messages(db, conn, sorted(item.unique_message_id for item in finished.reverted))
    claim_rows.lock_batch(conn, batch.batch_id)
    take_back(db, conn, batch, finished.reverted, now)


def _record_and_stamp(
    db: Database,
    conn: Connection,
    batch: RetryBatch,
    forwarded: Sequence[str],
    unique_ids: Sequence[str],
    now: datetime,
) -> tuple[StampedMessage, ...]:
    """A claim that is gone has had its outcome already, which counted it."""
    known = {
        "batch": batch.batch_id,
        "ids": sorted({*forwarded, *unique_ids}),
        "forwarded": forwarded,
        "now": now,
    }
    db.sql.go_by_index(conn)
    moved = {row[0]: row[1] for row in conn.execute(_move_claims(db.sql), known).all()}
    recorded = moved.keys() & set(forwarded)
    claim_rows.count_forwarded(conn, [batch.operation_id] * len(recorded))
    return tuple(
        StampedMessage(unique_message_id=unique_id, in_doubt=in_doubt)
        for unique_id, in_doubt in moved.items()
        if unique_id not in recorded
    )


@cache
def _load_bodies(sql: SqlDialect) -> Select[str, bytes]:
    # No join: with a table as large as the statistics have not heard of yet, the server reads
    # all of it to find two hundred rows.
    body = (
        select(message_bodies.c.body)
        .where(message_bodies.c.body_hash == messages.body_hash)
        .scalar_subquery()
    )
    wanted = select(messages.unique_message_id, body).where(sql.listed(messages.unique_message_id))
    return wanted.execution_options(**{IN_BINARY: True})


@cache
def _move_claims(sql: SqlDialect) -> ReturningUpdate[str, bool]:
    """Make one statement of both, without a lock before it: to lock a claim costs as much again.

    So the server has to come by the claims in the order in which all others lock them, or this
    deadlocks with the failures of a window that come back while it is recorded: by the index of
    their ids. That of batches is kept out of its sight.
    """
    now = bindparam("now", type_=UtcTime)
    recorded = sql.among(claims.unique_message_id, sql.texts("forwarded"))
    # One that was put aside or resolved since it was staged is on nobody's way any more. Not
    # EXISTS: the server would make a join of it, and begin with all messages of that status.
    status = (
        select(messages.status)
        .where(messages.unique_message_id == claims.unique_message_id)
        .scalar_subquery()
    )
    return (
        update(failed_message_retries)
        .where(
            (claims.batch_id + "") == bindparam("batch"),
            claims.forwarded_at.is_(None),
            sql.listed(claims.unique_message_id),
            or_(recorded, status == FailedMessageStatus.RETRY_ISSUED),
        )
        .values(
            # The first stamp stays: it says since when the message has been in doubt.
            sending_since=func.coalesce(claims.sending_since, now),
            forwarded_at=case((recorded, now)),
        )
        # Any other stamp is of an earlier try, also a later one: a clock may be set back.
        .returning(claims.unique_message_id, claims.sending_since != now)
    )
