"""Counts of failed messages by queue, endpoint and message type."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from sqlalchemy import Column, Connection, func, select

from retrier.domain.failed_message import FailedMessageStatus
from retrier.store.database import Database
from retrier.store.reading.pages import Page, PageRequest
from retrier.store.schema import failed_messages

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


def list_queues(db: Database, page: PageRequest) -> Page[QueueCount]:
    """Return one page of the queues on which messages failed, by name."""
    return db.read(partial(_list_queues, page))


def summarise(db: Database) -> Summary:
    """Count all unresolved messages. Raises DatabaseUnavailable."""
    return db.read(_summarise)


def _list_queues(page: PageRequest, conn: Connection) -> Page[QueueCount]:
    total = select(func.count(messages.queue.distinct()))
    query = (
        select(messages.queue, func.count())
        .group_by(messages.queue)
        .order_by(messages.queue)
        .limit(page.size)
        .offset(page.offset)
    )
    return Page(
        items=tuple(QueueCount(queue=queue, count=count) for queue, count in conn.execute(query)),
        total=conn.execute(total).scalar_one(),
    )


def _summarise(conn: Connection) -> Summary:
    return Summary(
        endpoints=_count_by(conn, messages.endpoint),
        message_types=_count_by(conn, messages.message_type),
    )


def _count_by(conn: Connection, column: Column[Any]) -> dict[str, int]:
    query = (
        select(column.label("value"), func.count().label("number"))
        .where(messages.status == FailedMessageStatus.UNRESOLVED, column.is_not(None))
        .group_by(column)
        .order_by(column)
    )
    return {row.value: row.number for row in conn.execute(query)}
