"""The orders of a list of failed messages, each along an index: page 1 costs the same at a million.

A message without the value that the list is sorted by comes last, in either direction.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, Select, func, select, union_all

from retrier.domain.failed_message import FailedMessageStatus
from retrier.store.reading.filters import MessageFilter, seeking, walking
from retrier.store.reading.pages import PageRequest
from retrier.store.schema import failed_messages

messages = failed_messages.c

FEW = 5000
"""So many rows at most are found and then sorted; more are walked in order until the page is full."""


class Sort(StrEnum):
    """What a list of failed messages can be sorted by (ServiceControl: SortInfo)."""

    ID = "id"
    MESSAGE_ID = "message_id"
    MESSAGE_TYPE = "message_type"
    STATUS = "status"
    TIME_SENT = "time_sent"
    MODIFIED = "modified"
    TIME_OF_FAILURE = "time_of_failure"


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """How a list is sorted; equal values by unique message id."""

    sort: Sort = Sort.TIME_SENT
    descending: bool = True


def find_ids(
    conn: Connection, wanted: MessageFilter, order: Order, page: PageRequest, *, total: int
) -> list[str]:
    """Return the ids of one page of a list that has `total` messages in all."""
    if total > FEW and order.sort is Sort.TIME_OF_FAILURE:
        return _merge_statuses(conn, wanted, order, page)
    conditions = seeking(wanted) if total <= FEW else walking(wanted)
    query = select(messages.unique_message_id).where(*conditions)
    column = _COLUMNS[order.sort][0]
    if column.nullable:
        return _with_missing_last(conn, query, order, page)
    return _cut(conn, _sorted(query, order), page.size, page.offset)


def _with_missing_last(
    conn: Connection, query: Select[tuple[str]], order: Order, page: PageRequest
) -> list[str]:
    column = _COLUMNS[order.sort][0]
    present = query.where(column.is_not(None))
    found = _cut(conn, _sorted(present, order), page.size, page.offset)
    if len(found) == page.size:
        return found
    before = page.offset + len(found) if found else _count(conn, present)
    missing = _sorted(query.where(column.is_(None)), replace(order, sort=Sort.MODIFIED))
    return found + _cut(conn, missing, page.size - len(found), max(0, page.offset - before))


def _merge_statuses(
    conn: Connection, wanted: MessageFilter, order: Order, page: PageRequest
) -> list[str]:
    """The index of this order begins with the status: the heads of all statuses are merged."""
    statuses = sorted(wanted.statuses or FailedMessageStatus)
    tested = walking(replace(wanted, statuses=None))
    query = select(messages.unique_message_id, messages.last_failure).where(*tested)
    heads = [
        _sorted(query.where(messages.status == status), order)
        .limit(page.offset + page.size)
        .subquery()
        for status in statuses
    ]
    merged = union_all(*(select(head) for head in heads)).subquery()
    keys = [_directed(merged.c[name], order) for name in ("last_failure", "unique_message_id")]
    return _cut(conn, select(merged.c.unique_message_id).order_by(*keys), page.size, page.offset)


def _sorted(query: Select[Any], order: Order) -> Select[Any]:
    columns = (*_COLUMNS[order.sort], messages.unique_message_id)
    return query.order_by(*(_directed(column, order) for column in columns))


def _directed(column: ColumnElement[Any], order: Order) -> ColumnElement[Any]:
    return column.desc() if order.descending else column.asc()


def _cut(conn: Connection, query: Select[Any], size: int, offset: int) -> list[str]:
    return list(conn.execute(query.limit(size).offset(offset)).scalars())


def _count(conn: Connection, query: Select[tuple[str]]) -> int:
    return conn.execute(select(func.count()).select_from(query.subquery())).scalar_one()


_COLUMNS: MappingProxyType[Sort, Sequence[Column[Any]]] = MappingProxyType(
    {
        Sort.ID: (messages.unique_message_id,),
        Sort.MESSAGE_ID: (messages.message_id,),
        Sort.MESSAGE_TYPE: (messages.message_type,),
        Sort.STATUS: (messages.status, messages.last_failure),
        Sort.TIME_SENT: (messages.time_sent,),
        Sort.MODIFIED: (messages.last_modified,),
        Sort.TIME_OF_FAILURE: (messages.last_failure,),
    }
)
