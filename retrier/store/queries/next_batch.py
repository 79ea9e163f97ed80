"""The batch that the processor moves next: the most advanced one."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, case, exists, or_, select

from retrier.domain.retry_batch import RetryBatch, RetryBatchStatus
from retrier.store.engine.database import reading
from retrier.store.engine.sql_dialect import SqlDialect
from retrier.store.engine.transaction import Transaction
from retrier.store.queries.batches import batch_from_row
from retrier.store.queries.breakers import (
    ANY_NOT_CLOSED,
)
from retrier.store.schema import (
    failed_message_retries,
    retry_batch_now_forwarding,
    retry_batches,
    retry_operations,
)

batches = retry_batches.c
claims = failed_message_retries.c

# Made once: SQLAlchemy takes longer to make a statement than to execute it.
_ANY_STAGING = select(batches.batch_id).where(batches.status == RetryBatchStatus.STAGING).limit(1)


def is_due(now: ColumnElement[datetime] | datetime) -> ColumnElement[bool]:
    """Return the condition that a batch need not wait any longer at the time `now`.

    If `modified_at` is in the future, the database's clock was set back: without that condition
    the batch would wait that much longer, and every other batch behind it.
    """
    return or_(batches.not_before.is_(None), batches.not_before <= now, batches.modified_at > now)


@dataclass(frozen=True, slots=True, kw_only=True)
class NextBatch:
    """The batch that is to be moved next, and whether its operation is to be cancelled.

    `may_hold`: there is a breaker that is not closed.
    """

    batch: RetryBatch
    cancel_asked: bool
    may_hold: bool


@reading
def find_most_advanced(tx: Transaction) -> NextBatch | None:
    """Return the batch that is to be moved next, or None; reads once, without a lock.

    The one the pointer names; else the next that may be staged, by priority, then age; else one
    in Marking, which is an orphan at the beginning of a turn. Raises DatabaseUnavailable.
    """
    known = tx.sql.tell(tx.conn, timedelta(0))
    row = tx.execute(_most_advanced(tx.sql), known).mappings().first()
    if row is None:
        return None
    return NextBatch(
        batch=batch_from_row(dict(row)),
        cancel_asked=row["cancel_asked"],
        may_hold=row["may_hold"],
    )


@reading
def is_any_staging(tx: Transaction) -> bool:
    """Return whether any batch is in Staging, including one that has to wait."""
    return tx.execute(_ANY_STAGING).first() is not None


UNSTAMPED = exists().where(claims.batch_id == batches.batch_id, claims.sending_since.is_(None))
"""The condition that a batch has a message that was certainly not sent."""


@cache
def _most_advanced(sql: SqlDialect) -> Select[Any]:
    now, _ = sql.moments
    pointed = batches.batch_id.in_(select(retry_batch_now_forwarding.c.batch_id))
    # One that is to be cancelled need not wait for the broker, if there is something to release.
    cancelled = and_(retry_operations.c.cancel_asked, UNSTAMPED)
    staging = and_(batches.status == RetryBatchStatus.STAGING, or_(is_due(now), cancelled))
    return (
        # Asked here, so that without breakers there is no query about them.
        select(
            retry_batches,
            retry_operations.c.cancel_asked,
            ANY_NOT_CLOSED.label("may_hold"),
        )
        .join(retry_operations, retry_operations.c.operation_id == batches.operation_id)
        .where(or_(pointed, staging, batches.status == RetryBatchStatus.MARKING))
        .order_by(
            case((pointed, 0), (staging, 1), else_=2),
            retry_operations.c.priority,
            batches.created_at,
            batches.batch_id,
        )
        .limit(1)
    )
