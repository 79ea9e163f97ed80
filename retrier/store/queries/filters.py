"""Which failed messages a list shows, as SQL conditions."""

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Column, ColumnElement, exists, func

from retrier.domain.failed_message import FailedMessageStatus
from retrier.domain.selection import Selection
from retrier.domain.short_ids import IdRange
from retrier.store import selections
from retrier.store.schema import failed_message_groups, failed_messages

messages = failed_messages.c
members = failed_message_groups.c


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageFilter:
    """Conditions joined by *and*; None leaves a part open. `modified` includes both its ends."""

    statuses: frozenset[FailedMessageStatus] | None = None
    modified: tuple[datetime, datetime] | None = None
    ids: IdRange | None = None
    selection: Selection = field(default_factory=Selection)

    @property
    def is_by_status_alone(self) -> bool:
        """Whether nothing but the status narrows the list."""
        return self.modified is None and self.ids is None and self.selection == Selection()


def seeking(wanted: MessageFilter) -> list[ColumnElement[bool]]:
    """Return conditions that find few rows by an index of theirs.

    The status is hidden from the planner where anything else narrows the list: SQLite, which
    keeps no statistics, would else read all rows of that status.
    """
    status = messages.status if wanted.is_by_status_alone else hidden(messages.status)
    return [
        *_status(wanted, status),
        *_modified(wanted, messages.last_modified),
        *_in_range(wanted, messages.unique_message_id),
        *selections.where(wanted.selection),
    ]


def walking(wanted: MessageFilter) -> list[ColumnElement[bool]]:
    """Return conditions that are tested row by row while the index of an order is walked."""
    return [
        *_status(wanted, hidden(messages.status)),
        *_modified(wanted, hidden(messages.last_modified)),
        *_in_range(wanted, hidden(messages.unique_message_id)),
        *_selected(wanted.selection),
    ]


def hidden(column: Column[Any]) -> ColumnElement[Any]:
    """Return the column so that no index of it is used; the same on every database."""
    return func.coalesce(column, column)


def _status(wanted: MessageFilter, status: ColumnElement[Any]) -> list[ColumnElement[bool]]:
    if wanted.statuses is None:
        return []
    if len(wanted.statuses) == 1:
        return [status == next(iter(wanted.statuses))]
    return [status.in_(sorted(wanted.statuses))]


def _modified(wanted: MessageFilter, modified: ColumnElement[Any]) -> list[ColumnElement[bool]]:
    return [modified.between(*wanted.modified)] if wanted.modified else []


def _in_range(wanted: MessageFilter, unique_id: ColumnElement[Any]) -> list[ColumnElement[bool]]:
    return [unique_id.between(wanted.ids.first, wanted.ids.last)] if wanted.ids else []


def _selected(selection: Selection) -> list[ColumnElement[bool]]:
    indexed = ((messages.queue, selection.queue), (messages.endpoint, selection.endpoint))
    conditions = [hidden(column) == value for column, value in indexed if value is not None]
    if selection.group is not None:
        conditions.append(_is_member(selection.group))
    rest = replace(selection, group=None, queue=None, endpoint=None)
    return [*conditions, *selections.where(rest)]


def _is_member(group_id: str) -> ColumnElement[bool]:
    same = members.unique_message_id == messages.unique_message_id
    return exists().where(same, members.group_id == group_id)
