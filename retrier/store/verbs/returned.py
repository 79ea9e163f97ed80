"""Messages taken back out of a retry: unresolved again, claim gone, with the reason."""

from collections.abc import Sequence
from datetime import datetime
from functools import cache

from sqlalchemy import Connection, Select, bindparam, delete, or_, select, update

from retrier.domain.failed_message import Disposition, FailedMessageStatus
from retrier.domain.retry_batch import Ejected, RetryBatch
from retrier.store import event_log
from retrier.store.columns import short
from retrier.store.database import Database
from retrier.store.event_log import Event
from retrier.store.schema import failed_message_retries, failed_messages, retry_operations
from retrier.store.sql_dialect import SqlDialect

messages = failed_messages.c
claims = failed_message_retries.c
operations = retry_operations.c


def share_cut_off_first(db: Database, conn: Connection) -> None:
    """Take the lock that new failure numbers need, before any row is locked.

    Taken after the rows, it closes a circle with an ingester that waits for these rows and a
    click that waits for the ingester: PostgreSQL breaks that, but only after a second.
    """
    db.sql.share_cut_off(conn)


def lock_messages(db: Database, conn: Connection, unique_ids: Sequence[str]) -> None:
    """Lock these messages in id order, before anything else the transaction locks."""
    if unique_ids:
        conn.execute(_lock(db.sql), {"ids": unique_ids})


def take_back(
    db: Database, conn: Connection, batch: RetryBatch, ejected: Sequence[Ejected], now: datetime
) -> int:
    """End the claims of these messages and give them a new failure number; return how many.

    The new number puts them above every cut-off taken so far: the operation that failed to
    send them does not pick them up again. One whose claim is gone already is left alone.
    """
    reasons = {item.unique_message_id: item.reason for item in ejected}
    ended = _end_claims(db, conn, batch.batch_id, sorted(reasons))
    if not ended:
        return 0
    _make_unresolved(db, conn, {unique_id: reasons[unique_id] for unique_id in ended}, now)
    conn.execute(
        update(retry_operations)
        .where(operations.operation_id == batch.operation_id)
        .values(failed=operations.failed + len(ended), modified_at=now)
    )
    event_log.append(conn, now, [_event(batch, key, reasons[key]) for key in ended])
    return len(ended)


@cache
def _lock(sql: SqlDialect) -> Select[str]:
    return (
        select(messages.unique_message_id)
        .where(sql.listed(messages.unique_message_id))
        .order_by(messages.unique_message_id)
        .with_for_update()
    )


def _end_claims(
    db: Database, conn: Connection, batch_id: str, unique_ids: Sequence[str]
) -> Sequence[str]:
    if not unique_ids:
        return []
    ended = conn.execute(
        delete(failed_message_retries)
        .where(
            claims.batch_id == batch_id,
            claims.forwarded_at.is_(None),
            db.sql.member(claims.unique_message_id, unique_ids),
        )
        .returning(claims.unique_message_id)
    )
    return sorted(ended.scalars())


def _make_unresolved(
    db: Database, conn: Connection, reasons: dict[str, str], now: datetime
) -> None:
    numbers = db.sql.next_failure_seqs(conn, len(reasons))
    rows = [
        {"key": unique_id, "number": number, "why": short(reason)}
        for (unique_id, reason), number in zip(sorted(reasons.items()), numbers, strict=True)
    ]
    # Written out: a list of values cannot be bound where many rows are.
    pending = or_(
        messages.status == FailedMessageStatus.RETRY_ISSUED,
        messages.status == FailedMessageStatus.UNRESOLVED,
    )
    conn.execute(
        update(failed_messages)
        .where(messages.unique_message_id == bindparam("key"), pending)
        .values(
            status=FailedMessageStatus.UNRESOLVED,
            failure_seq=bindparam("number"),
            disposition=Disposition.MANUAL,
            disposition_reason=bindparam("why"),
            last_modified=now,
        ),
        rows,
    )


def _event(batch: RetryBatch, unique_id: str, reason: str) -> Event:
    return Event(
        kind="retry_returned",
        text=f"{unique_id}: unresolved again: {reason}",
        unique_message_id=unique_id,
        operation_id=batch.operation_id,
        batch_id=batch.batch_id,
    )
