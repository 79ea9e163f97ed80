"""Claims (`failed_message_retries`): one per message at most, whoever asks for its retry."""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache

from sqlalchemy import Connection, Select, bindparam, delete, func, select, update

from retrier.store.database import Database
from retrier.store.schema import failed_message_retries, retry_operations
from retrier.store.sql_dialect import SqlDialect

claims = failed_message_retries.c

# Made once: SQLAlchemy takes longer to make a statement than to carry it out.
_LOCK_BATCH = (
    select(claims.unique_message_id)
    .where(claims.batch_id == bindparam("batch"))
    .order_by(claims.unique_message_id)
    .with_for_update()
)
_COUNT_UNRECORDED = (
    select(func.count())
    .select_from(failed_message_retries)
    .where(claims.batch_id == bindparam("batch"), claims.forwarded_at.is_(None))
)
_COUNT_FORWARDED = (
    update(retry_operations)
    .where(retry_operations.c.operation_id == bindparam("operation"))
    .values(forwarded=retry_operations.c.forwarded + bindparam("number"))
)


def lock(db: Database, conn: Connection, unique_ids: Sequence[str]) -> dict[str, str]:
    """Lock the claims of these messages, in order; return their retry ids by message."""
    query = (
        select(claims.unique_message_id, claims.retry_id)
        .where(db.sql.member(claims.unique_message_id, unique_ids))
        .order_by(claims.unique_message_id)
        .with_for_update()
    )
    return {row.unique_message_id: row.retry_id for row in conn.execute(query)}


def hold(db: Database, conn: Connection, unique_ids: Sequence[str]) -> None:
    """Lock the claims of these messages, in order, for one who knows what they say."""
    conn.execute(_lock(db.sql), {"ids": unique_ids})


def lock_batch(conn: Connection, batch_id: str) -> None:
    """Lock all claims of a batch, in the order in which everybody locks claims."""
    conn.execute(_LOCK_BATCH, {"batch": batch_id})


def end_with_outcome(db: Database, conn: Connection, unique_ids: Sequence[str]) -> frozenset[str]:
    """End the claims of messages whose outcome arrived: failed again, or confirmed.

    Returns the messages whose retry had been sent, or was being sent. One that was being sent
    and is not recorded yet has evidently been forwarded, so it is counted here: its recording
    will find no claim and count nothing.
    """
    if not unique_ids:
        return frozenset()
    ended = conn.execute(
        delete(failed_message_retries)
        .where(db.sql.member(claims.unique_message_id, unique_ids))
        .returning(
            claims.unique_message_id,
            claims.operation_id,
            claims.sending_since,
            claims.forwarded_at,
        )
    )
    sent = [row for row in ended if row.sending_since]
    count_forwarded(conn, (row.operation_id for row in sent if not row.forwarded_at))
    return frozenset(row.unique_message_id for row in sent)


def count_forwarded(conn: Connection, operation_ids: Iterable[str]) -> None:
    """Count one forwarded message for each operation named, as often as it is named."""
    for operation_id, number in sorted(Counter(operation_ids).items()):
        conn.execute(_COUNT_FORWARDED, {"operation": operation_id, "number": number})


def release(conn: Connection, batch_id: str, unique_ids: Sequence[str]) -> None:
    """End claims of this batch that will not be sent."""
    if unique_ids:
        conn.execute(
            delete(failed_message_retries).where(
                claims.batch_id == batch_id, claims.unique_message_id.in_(unique_ids)
            )
        )


def count_unrecorded(conn: Connection, batch_id: str) -> int:
    """Count the claims of a batch that are not recorded as forwarded."""
    return conn.execute(_COUNT_UNRECORDED, {"batch": batch_id}).scalar_one()


@cache
def _lock(sql: SqlDialect) -> Select[str]:
    return (
        select(claims.unique_message_id)
        .where(sql.listed(claims.unique_message_id))
        .order_by(claims.unique_message_id)
        .with_for_update()
    )
