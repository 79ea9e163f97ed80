"""Counts of failed messages by queue, endpoint and message type."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Column, Select, func, select

from retrier.domain.failed_message import FailedMessageStatus
from retrier.store.engine.transaction import Transaction
from retrier.store.engine.verb import reading
from retrier.store.queries.pages import Page, PageRequest
from retrier.store.schema import causes, failed_messages

messages = failed_messages.c


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueCount:
    """A queue on which messages failed, and how many are known of it in any status."""

    queue: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Unresolved messages counted by endpoint and by message type."""

    endpoints: Mapping[str, int]
    message_types: Mapping[str, int]


_BY_CAUSE = select(messages.cause_id, func.count().label("number")).group_by(messages.cause_id)


@reading
def list_queues(tx: Transaction, page: PageRequest) -> Page[QueueCount]:
    """Return one page of the queues on which messages failed, by name."""
    counts = _count_by(causes.c.queue, _BY_CAUSE)
    total = select(func.count()).select_from(counts.subquery())
    rows = tx.execute(counts.limit(page.size).offset(page.offset))
    return Page(
        items=tuple(QueueCount(queue=row.value, count=int(row.number)) for row in rows),
        total=tx.execute(total).scalar_one(),
    )


@reading
def summarise(tx: Transaction) -> Summary:
    """Count all unresolved messages. Raises DatabaseUnavailable."""
    unresolved = _BY_CAUSE.where(messages.status == FailedMessageStatus.UNRESOLVED)
    return Summary(
        endpoints=_counted(tx, _count_by(causes.c.endpoint, unresolved)),
        message_types=_counted(tx, _count_by(causes.c.message_type, unresolved)),
    )


def _count_by(column: Column[Any], by_cause: Select[Any]) -> Select[Any]:
    """Add up the causes that have the same value, of which there are few."""
    counted = by_cause.subquery()
    return (
        select(column.label("value"), func.sum(counted.c.number).label("number"))
        .join_from(counted, causes, causes.c.cause_id == counted.c.cause_id)
        .where(column.is_not(None))
        .group_by(column)
        .order_by(column)
    )


def _counted(tx: Transaction, query: Select[Any]) -> dict[str, int]:
    return {row.value: int(row.number) for row in tx.execute(query)}
