"""The orders of a list of failed messages, each along an index: page 1 costs the same at a million.

A message without the value that the list is sorted by comes last, in either direction.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from types import MappingProxyType
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, Select, func, select, union_all

from retrier.domain.failed_message import FailedMessageStatus
from retrier.store.reading.filters import MessageFilter, seeking, walking
from retrier.store.reading.pages import PageRequest
from retrier.store.schema import failed_messages

messages = failed_messages.c

Find = Callable[["Order", int, int], list[str]]
"""Finds so many ids of a list in that order, after so many others."""

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
    conn: Connection,
    wanted: MessageFilter,
    order: Order,
    page: PageRequest,
    *,
    total: int,
    few: int = FEW,
) -> list[str]:
    """Return the ids of one page of a list that has `total` messages in all."""
    many = total > few
    start, stop = page.offset, min(page.offset + page.size, total)
    if stop <= start:
        return []
    if many and order.sort is Sort.TIME_OF_FAILURE:
        return _slice(partial(_merge_statuses, conn, wanted), order, start, stop, total)
    query = _ids().where(*(walking(wanted) if many else seeking(wanted)))
    if _COLUMNS[order.sort][0].nullable:
        return _with_missing_last(conn, query, order, slice(start, stop), total)
    return _slice(partial(_cut, conn, query), order, start, stop, total)


def _with_missing_last(
    conn: Connection, query: Select[tuple[str]], order: Order, part: slice, total: int
) -> list[str]:
    """Take the list as two: the messages that have the value, and those that have not."""
    start, stop = part.start, part.stop
    column = _COLUMNS[order.sort][0]
    find_present = partial(_cut, conn, query.where(column.is_not(None)))
    if start <= total // 2:
        found = find_present(order, stop - start, start)
        if len(found) == stop - start:
            return found
    present = _count(conn, query.where(column.is_not(None)))
    find_missing = partial(_cut, conn, query.where(column.is_(None)))
    rest = replace(order, sort=Sort.MODIFIED)
    return [
        *_slice(find_present, order, start, min(stop, present), present),
        *_slice(find_missing, rest, max(0, start - present), stop - present, total - present),
    ]


def _slice(find: Find, order: Order, start: int, stop: int, length: int) -> list[str]:
    """Read a part of a list from the end that is nearer: the last page is as near as the first."""
    if stop <= start:
        return []
    if start <= length - stop:
        return find(order, stop - start, start)
    backwards = replace(order, descending=not order.descending)
    return find(backwards, stop - start, length - stop)[::-1]


def _merge_statuses(
    conn: Connection, wanted: MessageFilter, order: Order, size: int, offset: int
) -> list[str]:
    """The index of this order begins with the status: the heads of all statuses are merged."""
    statuses = FailedMessageStatus if wanted.statuses is None else wanted.statuses
    tested = walking(replace(wanted, statuses=None))
    query = _ids().add_columns(messages.last_failure).where(*tested)
    heads = [
        _sorted(query.where(messages.status == status), order).limit(offset + size).subquery()
        for status in sorted(statuses)
    ]
    merged = union_all(*(select(head) for head in heads)).subquery().c
    keys = (_directed(key, order) for key in (merged.last_failure, merged.unique_message_id))
    found = select(merged.unique_message_id).order_by(*keys).limit(size).offset(offset)
    return list(conn.execute(found).scalars())


def _ids() -> Select[tuple[str]]:
    return select(messages.unique_message_id)


def _sorted(query: Select[Any], order: Order) -> Select[Any]:
    columns = (*_COLUMNS[order.sort], messages.unique_message_id)
    return query.order_by(*(_directed(column, order) for column in columns))


def _directed(column: ColumnElement[Any], order: Order) -> ColumnElement[Any]:
    return column.desc() if order.descending else column.asc()


def _cut(
    conn: Connection, query: Select[tuple[str]], order: Order, size: int, offset: int
) -> list[str]:
    return list(conn.execute(_sorted(query, order).limit(size).offset(offset)).scalars())


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
