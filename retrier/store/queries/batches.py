"""Existing retry batches with counts of their claims."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, case, func, select

from retrier.domain.identity import canonical, is_guid
from retrier.domain.retry_batch import RetryBatch, RetryBatchStatus
from retrier.store.engine.database import reading
from retrier.store.engine.transaction import Transaction
from retrier.store.queries.messages import ShownClaim, shown_claims
from retrier.store.schema import (
    failed_message_retries,
    failed_messages,
    retry_batch_now_forwarding,
    retry_batches,
)

batches = retry_batches.c
claims = failed_message_retries.c

SHOWN_CLAIMS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCount:
    """A batch and the numbers of its claims: all, recorded, and in doubt (stamped, unrecorded)."""

    batch: RetryBatch
    claims: int
    forwarded: int
    in_doubt: int
    is_now_forwarding: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchDetails:
    """A batch and its claims in doubt: perhaps sent, not recorded; at most SHOWN_CLAIMS."""

    counted: BatchCount
    in_doubt: tuple[ShownClaim, ...]


@reading
def list_batches(tx: Transaction) -> tuple[BatchCount, ...]:
    """Return every existing batch, oldest first. Raises DatabaseUnavailable."""
    return tuple(_counts(tx, select(retry_batches)))


@reading
def find_batch(tx: Transaction, batch_id: str) -> BatchDetails | None:
    """Return the batch with that id, or None if there is none. Raises DatabaseUnavailable."""
    if not is_guid(batch_id):
        return None
    found = _counts(tx, select(retry_batches).where(batches.batch_id == canonical(batch_id)))
    if not found:
        return None
    query = (
        shown_claims()
        .where(claims.batch_id == canonical(batch_id), _is_in_doubt())
        .order_by(claims.sending_since, failed_messages.c.unique_message_id)
        .limit(SHOWN_CLAIMS)
    )
    rows = tx.execute(query).mappings()
    return BatchDetails(counted=found[0], in_doubt=tuple(ShownClaim(**row) for row in rows))


def batch_from_row(row: Mapping[str, Any]) -> RetryBatch:
    """Return a row of retry_batches as a RetryBatch."""
    values = {column.name: row[column.name] for column in batches}
    return RetryBatch(**{**values, "status": RetryBatchStatus(row["status"])})


def _counts(tx: Transaction, query: Select[Any]) -> list[BatchCount]:
    counted = (
        query.add_columns(
            func.count(claims.number).label("claims"),
            _count_where(claims.forwarded_at.is_not(None)).label("forwarded"),
            _count_where(_is_in_doubt()).label("in_doubt"),
            retry_batch_now_forwarding.c.id.is_not(None).label("is_now_forwarding"),
        )
        .outerjoin(failed_message_retries, claims.batch_id == retry_batches.c.batch_id)
        .outerjoin(retry_batch_now_forwarding)
        .group_by(retry_batches.c.batch_id, retry_batch_now_forwarding.c.id)
        .order_by(retry_batches.c.created_at, retry_batches.c.batch_id)
    )
    return [_batch_count(dict(row)) for row in tx.execute(counted).mappings()]


def _count_where(condition: ColumnElement[bool]) -> ColumnElement[int]:
    return func.count(case((condition, 1)))


def _is_in_doubt() -> ColumnElement[bool]:
    return and_(claims.sending_since.is_not(None), claims.forwarded_at.is_(None))


def _batch_count(row: Mapping[str, Any]) -> BatchCount:
    return BatchCount(
        batch=batch_from_row(row),
        claims=row["claims"],
        forwarded=row["forwarded"],
        in_doubt=row["in_doubt"],
        is_now_forwarding=bool(row["is_now_forwarding"]),
    )
