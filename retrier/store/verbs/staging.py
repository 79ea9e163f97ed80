"""Staging: what a batch's copies are made of, and the one transaction into Forwarding."""

from collections.abc import Sequence
from datetime import datetime
from functools import cache, partial

from sqlalchemy import Connection, and_, bindparam, func, or_, select, update
from sqlalchemy.sql.dml import ReturningUpdate

from retrier.domain.failed_message import FailedMessageStatus
from retrier.domain.retry_batch import ClaimedMessage, RetryBatch, RetryBatchStatus, StagedCopies
from retrier.domain.retry_operation import RetryOperationState
from retrier.store import batches, event_log
from retrier.store import claims as claim_rows
from retrier.store.database import Database
from retrier.store.event_log import Event
from retrier.store.lease import Fence, hold
from retrier.store.returned import lock_messages, share_cut_off_first, take_back
from retrier.store.schema import (
    failed_message_retries,
    failed_messages,
    message_redirects,
    retry_batch_now_forwarding,
    retry_operations,
)
from retrier.store.schema.types import UtcTime
from retrier.store.sql_dialect import IN_BINARY, SqlDialect

messages = failed_messages.c
claims = failed_message_retries.c
redirects = message_redirects.c

_stageable = or_(
    messages.status == FailedMessageStatus.UNRESOLVED,
    and_(
        messages.status == FailedMessageStatus.RETRY_ISSUED,
        messages.last_retry_id == claims.retry_id,
    ),
)
"""Unresolved, or on its way by this same claim: a batch that forwarding handed back."""

# Made once: SQLAlchemy takes longer to make a statement than to carry it out.
_LOAD_CLAIMED = (
    select(
        claims.unique_message_id,
        claims.retry_id,
        messages.dialect,
        messages.error_queue,
        func.coalesce(redirects.to_queue, messages.destination).label("destination"),
        messages.raw_properties.label("raw"),
        messages.body_size,
        messages.completed_steps,
    )
    .join_from(
        failed_message_retries,
        failed_messages,
        messages.unique_message_id == claims.unique_message_id,
    )
    .outerjoin(message_redirects, redirects.from_queue == messages.destination)
    .where(claims.batch_id == bindparam("batch"), claims.forwarded_at.is_(None), _stageable)
    .order_by(messages.failure_seq)
    .execution_options(**{IN_BINARY: True})
)
_CLAIMED = select(claims.unique_message_id).where(
    claims.batch_id == bindparam("batch"), claims.forwarded_at.is_(None)
)
_POINT_AT = retry_batch_now_forwarding.insert().values(id=1, batch_id=bindparam("batch"))
_ON_ITS_WAY = (
    update(retry_operations)
    .where(
        retry_operations.c.operation_id == bindparam("operation"),
        retry_operations.c.state == RetryOperationState.PREPARING,
    )
    .values(
        state=RetryOperationState.FORWARDING,
        modified_at=bindparam("now", type_=UtcTime),
    )
)


def load_claimed(db: Database, batch_id: str) -> tuple[ClaimedMessage, ...]:
    """Return the batch's unrecorded claims in the order of failure, redirects applied.

    Raises DatabaseUnavailable.
    """
    return db.read(partial(_load_claimed, batch_id))


def begin_forwarding(
    db: Database,
    fence: Fence,
    batch: RetryBatch,
    staged: StagedCopies,
) -> int:
    """Move a staged batch into Forwarding; return its frozen message count.

    One transaction: staging id and count frozen, messages *retry issued*, pointer set. Messages
    that left meanwhile (failed again, resolved) are dropped and their claims released; their
    copies will be acked unsent. A batch of which nothing is left is deleted. Raises LeaseLost,
    DatabaseUnavailable.
    """
    return db.transact(partial(_begin, db, fence, batch, staged))


def _load_claimed(batch_id: str, conn: Connection) -> tuple[ClaimedMessage, ...]:
    claimed = conn.execute(_LOAD_CLAIMED, {"batch": batch_id})
    names = tuple(claimed.keys())
    # Not by `mappings`: to make one of each row takes as long as to read the row.
    return tuple(ClaimedMessage(**dict(zip(names, row, strict=True))) for row in claimed.all())


def _begin(
    db: Database,
    fence: Fence,
    batch: RetryBatch,
    staged: StagedCopies,
    conn: Connection,
) -> int:
    now = hold(db, conn, fence)
    ejected = {item.unique_message_id for item in staged.ejected}
    if ejected:
        share_cut_off_first(db, conn)
    lock_messages(db, conn, sorted({*staged.unique_ids, *ejected}))
    claim_rows.lock_batch(conn, batch.batch_id)
    take_back(db, conn, batch, staged.ejected, now)
    issued = _issue(db, conn, batch.batch_id, staged.unique_ids, now)
    _release_others(conn, batch.batch_id, issued)
    if not issued:
        batches.delete_batch(conn, batch.batch_id)
        return 0
    _freeze(conn, batch, staged.staging_id, len(issued), now)
    return len(issued)


def _issue(
    db: Database, conn: Connection, batch_id: str, staged: Sequence[str], now: datetime
) -> Sequence[str]:
    """Make the staged messages *retry issued*; the rows that did change are the result."""
    if not staged:
        return []
    known = {"batch": batch_id, "ids": staged, "now": now}
    return conn.execute(_issue_retries(db.sql), known).scalars().all()


@cache
def _issue_retries(sql: SqlDialect) -> ReturningUpdate[str]:
    return (
        update(failed_messages)
        .where(
            claims.unique_message_id == messages.unique_message_id,
            claims.batch_id == bindparam("batch"),
            sql.listed(claims.unique_message_id),
            _stageable,
        )
        .values(
            status=FailedMessageStatus.RETRY_ISSUED,
            last_retry_id=claims.retry_id,
            disposition_reason=None,
            last_modified=bindparam("now", type_=UtcTime),
        )
        .returning(messages.unique_message_id)
    )


def _release_others(conn: Connection, batch_id: str, issued: Sequence[str]) -> None:
    kept = set(issued)
    claimed = conn.execute(_CLAIMED, {"batch": batch_id}).scalars()
    left = [unique_id for unique_id in claimed if unique_id not in kept]
    claim_rows.release(conn, batch_id, sorted(left))


def _freeze(
    conn: Connection, batch: RetryBatch, staging_id: str, count: int, now: datetime
) -> None:
    batches.move(
        conn,
        batch.batch_id,
        RetryBatchStatus.FORWARDING,
        now,
        staging_id=staging_id,
        message_count=count,
        not_before=None,
        reason=None,
    )
    conn.execute(_POINT_AT, {"batch": batch.batch_id})
    conn.execute(_ON_ITS_WAY, {"operation": batch.operation_id, "now": now})
    staged = Event(
        kind="batch_staged",
        text=f"{count} messages are staged and on their way",
        operation_id=batch.operation_id,
        batch_id=batch.batch_id,
    )
    event_log.append(conn, now, [staged])
