"""Counts of failed messages by queue, endpoint and message type."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Column, FromClause, Select, false, func, select, true, union_all

from retrier.domain.failed_message import FailedMessageStatus
from retrier.store.engine.database import reading
from retrier.store.engine.transaction import Transaction
from retrier.store.queries.ordering import Page, PageRequest
from retrier.store.schema import causes, failed_messages

messages = failed_messages.c


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueCount:
    """A queue on which messages failed, and how many are stored, in any status."""

    queue: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Unresolved messages counted by endpoint and by message type."""

    endpoints: Mapping[str, int]
    message_types: Mapping[str, int]


_BY_CAUSE = select(messages.cause_id, func.count().label("number")).group_by(messages.cause_id)


_UNRESOLVED_BY_CAUSE = _BY_CAUSE.where(messages.status == FailedMessageStatus.UNRESOLVED)


@reading
def list_queues(tx: Transaction, page: PageRequest) -> Page[QueueCount]:
    """Return one page of the queues on which messages failed, by name."""
    rows = tx.execute(_count_by(causes.c.queue, _BY_CAUSE.subquery()).order_by("value")).all()
    shown = rows[page.offset : page.offset + page.size]
    return Page(
        items=tuple(QueueCount(queue=row.value, count=int(row.number)) for row in shown),
        total=len(rows),
    )


@reading
def summarise(tx: Transaction) -> Summary:
    """Count all unresolved messages. Raises DatabaseUnavailable."""
    # Both sum the same counts by cause: the table of messages is read only once.
    unresolved = _UNRESOLVED_BY_CAUSE.cte("unresolved")
    both = union_all(
        _count_by(causes.c.endpoint, unresolved).add_columns(true().label("is_endpoint")),
        _count_by(causes.c.message_type, unresolved).add_columns(false()),
    )
    rows = tx.execute(both.order_by("value")).all()
    return Summary(
        endpoints={row.value: int(row.number) for row in rows if row.is_endpoint},
        message_types={row.value: int(row.number) for row in rows if not row.is_endpoint},
    )


def _count_by(column: Column[Any], by_cause: FromClause) -> Select[Any]:
    """Sum the counts of causes that have the same value in this column."""
    return (
        select(column.label("value"), func.sum(by_cause.c.number).label("number"))
        .join_from(by_cause, causes, causes.c.cause_id == by_cause.c.cause_id)
        .where(column.is_not(None))
        .group_by(column)
    )
