"""Claims (`failed_message_retries`): one per message at most, whoever asks for its retry."""

from collections import Counter
from collections.abc import Iterable, Sequence

from sqlalchemy import Connection, bindparam, delete, func, select, update

from retrier.store.database import Database
from retrier.store.new_ids import make_ids
from retrier.store.schema import failed_message_retries, retry_operations

claims = failed_message_retries.c

# Made once: SQLAlchemy takes longer to make a statement than to carry it out.
_OF_BATCH = select(claims.unique_message_id).where(claims.batch_id == bindparam("batch"))
_LOCK_BATCH = _OF_BATCH.order_by(claims.unique_message_id).with_for_update()
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


def take(
    db: Database, conn: Connection, batch_id: str, operation_id: str, unique_ids: Sequence[str]
) -> Sequence[str]:
    """Claim these messages for a batch; return those that nobody else had claimed."""
    if not unique_ids:
        return []
    insert = db.sql.insert_texts(
        failed_message_retries,
        {"unique_message_id": unique_ids, "retry_id": make_ids(len(unique_ids))},
        {"batch_id": batch_id, "operation_id": operation_id},
    )
    # Insert if absent: the first batch wins, and the other one goes on without the message.
    insert = insert.on_conflict_do_nothing().execution_options(preserve_rowcount=True)
    if conn.execute(insert).rowcount == len(unique_ids):
        return unique_ids
    # Asked for only then: nearly always all of a thousand rows would come back as they went.
    return conn.execute(_OF_BATCH, {"batch": batch_id}).scalars().all()


def lock(db: Database, conn: Connection, unique_ids: Sequence[str]) -> dict[str, str]:
    """Lock the claims of these messages, in order; return their retry ids by message."""
    query = (
        select(claims.unique_message_id, claims.retry_id)
        .where(db.sql.member(claims.unique_message_id, unique_ids))
        .order_by(claims.unique_message_id)
        .with_for_update()
    )
    return {row.unique_message_id: row.retry_id for row in conn.execute(query)}


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
