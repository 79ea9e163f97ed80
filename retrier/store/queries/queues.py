"""Counts of failed messages by queue, endpoint, host and message type."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum
from typing import Any

from sqlalchemy import ColumnElement, FromClause, Label, Select, func, literal, select, union_all

from retrier.domain.failed_message import Disposition, FailedMessageStatus
from retrier.store.engine.code_points import by_code_point
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
class HostCount:
    """A host on which messages failed last, how many are unresolved, and when the newest failed.

    The host is None for those that tell none.
    """

    host: str | None
    count: int
    last: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Unresolved messages counted by endpoint, host, message type and disposition."""

    endpoints: Mapping[str, int]
    hosts: Mapping[str, int]
    message_types: Mapping[str, int]
    dispositions: Mapping[Disposition, int]


_BY_CAUSE = select(messages.cause_id, func.count().label("number")).group_by(messages.cause_id)


_UNRESOLVED_BY_CAUSE = (
    _BY_CAUSE.group_by(messages.host)
    .add_columns(
        messages.host,
        func.count().filter(messages.disposition == Disposition.SCHEDULED).label("scheduled"),
        func.count().filter(messages.disposition == Disposition.DEAD).label("dead"),
    )
    .where(messages.status == FailedMessageStatus.UNRESOLVED)
)


@reading
def list_queues(tx: Transaction, page: PageRequest) -> Page[QueueCount]:
    """Return one page of the queues on which messages failed, by name."""
    rows = tx.execute(
        _count_by(causes.c.queue, _BY_CAUSE.subquery()).order_by(by_code_point(causes.c.queue))
    ).all()
    shown = rows[page.offset : page.offset + page.size]
    return Page(
        items=tuple(QueueCount(queue=row.value, count=int(row.number)) for row in shown),
        total=len(rows),
    )


@reading
def list_hosts(tx: Transaction) -> tuple[HostCount, ...]:
    """Return the hosts of unresolved messages, the one with most of them first.

    Raises DatabaseUnavailable.
    """
    number = func.count().label("number")
    query = (
        select(messages.host, number, func.max(messages.last_failure).label("last"))
        .where(messages.status == FailedMessageStatus.UNRESOLVED)
        .group_by(messages.host)
        .order_by(number.desc(), by_code_point(messages.host))
    )
    return tuple(
        HostCount(host=row.host, count=row.number, last=row.last) for row in tx.execute(query)
    )


@reading
def summarise(tx: Transaction) -> Summary:
    """Count all unresolved messages. Raises DatabaseUnavailable."""
    # All sum the same counts by cause: the table of messages is read only once.
    unresolved = _UNRESOLVED_BY_CAUSE.cte("unresolved")
    parts = union_all(
        _count_by_host(unresolved),
        _count_by(_SHOWN_ENDPOINT, unresolved).add_columns(_part(_Part.ENDPOINT)),
        _count_by(causes.c.message_type, unresolved).add_columns(_part(_Part.MESSAGE_TYPE)),
        *(_sum_up(unresolved, name) for name in ("number", *_APART)),
    )
    found: dict[_Part, dict[str, int]] = {part: {} for part in _Part}
    counted = parts.subquery()
    for row in tx.execute(select(counted).order_by(by_code_point(counted.c.value))):
        found[_Part(row.part)][row.value] = int(row.number)
    of_disposition = found[_Part.DISPOSITION]
    apart = {each: of_disposition[each] for each in _APART}
    return Summary(
        endpoints=found[_Part.ENDPOINT],
        hosts=found[_Part.HOST],
        message_types=found[_Part.MESSAGE_TYPE],
        dispositions={
            Disposition.MANUAL: of_disposition["number"] - sum(apart.values()),
            **apart,
        },
    )


class _Part(IntEnum):
    """What a line of the summary counts."""

    ENDPOINT = 1
    MESSAGE_TYPE = 2
    DISPOSITION = 3
    HOST = 4


_SHOWN_ENDPOINT = func.coalesce(causes.c.endpoint, causes.c.queue)
"""What lists show, and what a condition on the endpoint means."""

_APART = (Disposition.SCHEDULED, Disposition.DEAD)
"""Counted by cause beside all of them (`number`)."""


def _part(part: _Part) -> Label[int]:
    return literal(int(part)).label("part")


def _sum_up(by_cause: FromClause, name: str) -> Select[Any]:
    counted = func.coalesce(func.sum(by_cause.c[name]), 0)
    return select(literal(name).label("value"), counted.label("number"), _part(_Part.DISPOSITION))


def _count_by_host(by_cause: FromClause) -> Select[Any]:
    number = func.sum(by_cause.c.number).label("number")
    found = select(by_cause.c.host.label("value"), number, _part(_Part.HOST))
    return found.where(by_cause.c.host.is_not(None)).group_by(by_cause.c.host)


def _count_by(column: ColumnElement[Any], by_cause: FromClause) -> Select[Any]:
    """Sum the counts of causes that have the same value in this column."""
    return (
        select(column.label("value"), func.sum(by_cause.c.number).label("number"))
        .join_from(by_cause, causes, causes.c.cause_id == by_cause.c.cause_id)
        .where(column.is_not(None))
        .group_by(column)
    )
