"""Forwarding: windows are recorded and stamped, a batch is completed, or its rest moves on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial
from uuid import uuid4

from sqlalchemy import ColumnElement, Connection, Select, Update, bindparam, func, select, update
from sqlalchemy.sql.dml import ReturningUpdate

from retrier.domain.failed_message import FailedMessageStatus
from retrier.domain.retry_batch import RetryBatch, RetryBatchStatus, StampedMessage, WindowResult
from retrier.store import batches, event_log
from retrier.store import claims as claim_rows
from retrier.store.database import Database
from retrier.store.event_log import Event
from retrier.store.lease import Fence, hold
from retrier.store.returned import lock_messages, share_cut_off_first, take_back
from retrier.store.schema import (
    failed_message_retries,
    failed_messages,
    message_bodies,
    retry_batches,
)
from retrier.store.schema.types import UtcTime
from retrier.store.sql_dialect import IN_BINARY, SqlDialect

messages = failed_messages.c
claims = failed_message_retries.c


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedRest:
    """What a batch that could not be completed left: a new batch in Staging."""

    batch_id: str
    size: int
    stage_attempts: int


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
    return db.read(lambda conn: {row[0]: row[1] for row in conn.execute(query, known)})


def complete_batch(db: Database, fence: Fence, batch: RetryBatch) -> int:
    """Delete the batch and the pointer if no claim of it is unrecorded; return how many are.

    The claims stay: they keep other retries off until the outcome arrives. Raises LeaseLost,
    DatabaseUnavailable.
    """
    return db.transact(partial(_complete, db, fence, batch))


def move_rest(
    db: Database, fence: Fence, batch: RetryBatch, *, session_id: str, made_progress: bool
) -> MovedRest | None:
    """Move what is not recorded into a new batch in Staging, claims and retry ids and all.

    A batch only ever moves forward, so the old one and the pointer are deleted in the same
    transaction. None when everything was recorded after all. Raises LeaseLost,
    DatabaseUnavailable.
    """
    return db.transact(partial(_move_rest, db, fence, batch, session_id, made_progress))


def _open_window(
    db: Database,
    fence: Fence,
    batch: RetryBatch,
    finished: WindowResult,
    unique_ids: Sequence[str],
    conn: Connection,
) -> tuple[StampedMessage, ...]:
    now = hold(db, conn, fence)
    reverted = sorted(item.unique_message_id for item in finished.reverted)
    if reverted:
        share_cut_off_first(db, conn)
    lock_messages(db, conn, reverted)
    claim_rows.hold(db, conn, sorted({*finished.forwarded, *reverted, *unique_ids}))
    _record(db, conn, batch, finished.forwarded, now)
    take_back(db, conn, batch, finished.reverted, now)
    return _stamp(db, conn, batch, unique_ids, now)


def _record(
    db: Database, conn: Connection, batch: RetryBatch, forwarded: Sequence[str], now: datetime
) -> None:
    """A claim that is gone has had its outcome already, which counted it."""
    if not forwarded:
        return
    known = {"batch": batch.batch_id, "ids": forwarded, "now": now}
    recorded = conn.execute(_record_claims(db.sql), known)
    claim_rows.count_forwarded(conn, [batch.operation_id] * recorded.rowcount)


def _stamp(
    db: Database, conn: Connection, batch: RetryBatch, unique_ids: Sequence[str], now: datetime
) -> tuple[StampedMessage, ...]:
    if not unique_ids:
        return ()
    known = {"batch": batch.batch_id, "ids": unique_ids, "now": now}
    return tuple(
        StampedMessage(unique_message_id=unique_id, in_doubt=in_doubt)
        for unique_id, in_doubt in conn.execute(_stamp_claims(db.sql), known)
    )


def _complete(db: Database, fence: Fence, batch: RetryBatch, conn: Connection) -> int:
    now = hold(db, conn, fence)
    unrecorded = claim_rows.count_unrecorded(conn, batch.batch_id)
    if unrecorded == 0:
        batches.delete_batch(conn, batch.batch_id)
        done = Event(
            kind="batch_forwarded",
            text=f"the batch of {batch.message_count} messages is done",
            operation_id=batch.operation_id,
            batch_id=batch.batch_id,
        )
        event_log.append(conn, now, [done])
    return unrecorded


def _move_rest(
    db: Database,
    fence: Fence,
    batch: RetryBatch,
    session_id: str,
    made_progress: bool,  # noqa: FBT001 - bound by name above
    conn: Connection,
) -> MovedRest | None:
    now = hold(db, conn, fence)
    claim_rows.lock_batch(conn, batch.batch_id)
    size = claim_rows.count_unrecorded(conn, batch.batch_id)
    batches.delete_batch(conn, batch.batch_id)
    if size == 0:
        return None
    rest = MovedRest(
        batch_id=str(uuid4()),
        size=size,
        stage_attempts=0 if made_progress else batch.stage_attempts + 1,
    )
    _insert_rest(conn, batch, rest, session_id, now)
    conn.execute(
        update(failed_message_retries)
        .where(claims.batch_id == batch.batch_id, claims.forwarded_at.is_(None))
        .values(batch_id=rest.batch_id)
    )
    return rest


def _insert_rest(
    conn: Connection, batch: RetryBatch, rest: MovedRest, session_id: str, now: datetime
) -> None:
    conn.execute(
        retry_batches.insert().values(
            batch_id=rest.batch_id,
            operation_id=batch.operation_id,
            session_id=session_id,
            status=RetryBatchStatus.STAGING,
            initial_size=rest.size,
            stage_attempts=rest.stage_attempts,
            created_at=batch.created_at,
            modified_at=now,
        )
    )
    moved = Event(
        kind="batch_moved",
        text=f"{rest.size} messages were not seen again in the staging queue: staged anew",
        operation_id=batch.operation_id,
        batch_id=rest.batch_id,
        details={"from_batch": batch.batch_id},
    )
    event_log.append(conn, now, [moved])


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


def _unrecorded(sql: SqlDialect) -> tuple[ColumnElement[bool], ...]:
    """Return what is true of claims of the batch, among those named, that nobody recorded."""
    return (
        claims.batch_id == bindparam("batch"),
        claims.forwarded_at.is_(None),
        sql.listed(claims.unique_message_id),
    )


@cache
def _record_claims(sql: SqlDialect) -> Update:
    recorded = update(failed_message_retries).where(*_unrecorded(sql))
    return recorded.values(forwarded_at=bindparam("now", type_=UtcTime))


@cache
def _stamp_claims(sql: SqlDialect) -> ReturningUpdate[str, bool]:
    # One that was put aside or resolved since it was staged is on nobody's way any more. Not
    # EXISTS: the server would make a join of it, and begin with all messages of that status.
    status = (
        select(messages.status)
        .where(messages.unique_message_id == claims.unique_message_id)
        .scalar_subquery()
    )
    now = bindparam("now", type_=UtcTime)
    return (
        update(failed_message_retries)
        .where(*_unrecorded(sql), status == FailedMessageStatus.RETRY_ISSUED)
        # The first stamp stays: it says since when the message has been in doubt.
        .values(sending_since=func.coalesce(claims.sending_since, now))
        .returning(claims.unique_message_id, claims.sending_since < now)
    )
