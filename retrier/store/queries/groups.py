"""Failure groups with their unresolved messages counted, and the retries alive for them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

from sqlalchemy import ColumnElement, Connection, func, select

from retrier.domain.failed_message import FailedMessageStatus
from retrier.domain.failure_group import FailureGroup
from retrier.domain.retry_operation import RetryOperation, RetryType
from retrier.domain.selection import Selection
from retrier.domain.short_ids import IdRange
from retrier.store import operations
from retrier.store.database import Database
from retrier.store.reading.filters import MessageFilter, seeking
from retrier.store.reading.operations import is_alive
from retrier.store.schema import (
    failed_message_groups,
    failed_messages,
    failure_groups,
    retry_operations,
)

MOST_GROUPS = 200
"""Groups a list holds at most (ServiceControl: GroupsDataStore)."""

messages = failed_messages.c
members = failed_message_groups.c
groups = failure_groups.c


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCount:
    """A group, its messages counted with their first and last failure, and its retry alive."""

    group: FailureGroup
    count: int
    first: datetime | None
    last: datetime | None
    operation: RetryOperation | None = None


def count_groups(db: Database, classifier: str, title: str | None = None) -> tuple[GroupCount, ...]:
    """Return a classifier's groups with unresolved messages, at most 200, newest failure first.

    Reads every unresolved message once: costly where there are many. Raises DatabaseUnavailable.
    """
    return db.read(partial(_count, classifier, title))


def find_groups(db: Database, classifier: str, ids: IdRange) -> tuple[GroupCount, ...]:
    """Return a classifier's groups in a range of ids, also those without unresolved messages.

    At most 200. Raises DatabaseUnavailable.
    """
    return db.read(partial(_find_groups, classifier, ids))


def add_retries(
    db: Database, counted: Sequence[GroupCount], classifier: str, title: str | None = None
) -> tuple[GroupCount, ...]:
    """Return the groups with the retries alive for them, and those that have nothing else.

    While a retry runs, no message of its group may be unresolved any more. Raises
    DatabaseUnavailable.
    """
    return db.read(partial(_add_retries, counted, _conditions(classifier, title)))


def find_group(db: Database, group_id: str, wanted: MessageFilter) -> GroupCount | None:
    """Return a group with its matching messages counted, or None. Raises DatabaseUnavailable."""
    return db.read(partial(_find, group_id, wanted))


def find_title(db: Database, group_id: str) -> str | None:
    """Return the title of a group, or None. Raises DatabaseUnavailable."""
    query = select(groups.title).where(groups.group_id == group_id)
    return db.read(lambda conn: conn.execute(query).scalar_one_or_none())


def _conditions(classifier: str, title: str | None) -> list[ColumnElement[bool]]:
    by_title = [] if title is None else [groups.title == title]
    return [groups.classifier == classifier, *by_title]


def _count(classifier: str, title: str | None, conn: Connection) -> tuple[GroupCount, ...]:
    last = func.max(messages.last_failure)
    counts = (
        select(
            members.group_id,
            func.count().label("count"),
            func.min(messages.first_failure).label("first"),
            last.label("last"),
        )
        .join_from(failed_message_groups, failure_groups, groups.group_id == members.group_id)
        .join(failed_messages, messages.unique_message_id == members.unique_message_id)
        .where(messages.status == FailedMessageStatus.UNRESOLVED, *_conditions(classifier, title))
        .group_by(members.group_id)
        .order_by(last.desc(), members.group_id)
        .limit(MOST_GROUPS)
        .subquery()
    )
    query = (
        select(failure_groups, counts.c.count, counts.c.first, counts.c.last)
        .join_from(counts, failure_groups, groups.group_id == counts.c.group_id)
        .order_by(counts.c.last.desc(), groups.group_id)
    )
    return tuple(_group_count(dict(row)) for row in conn.execute(query).mappings())


def _find_groups(classifier: str, ids: IdRange, conn: Connection) -> tuple[GroupCount, ...]:
    query = (
        select(groups.group_id)
        .where(groups.classifier == classifier, groups.group_id.between(ids.first, ids.last))
        .order_by(groups.group_id)
        .limit(MOST_GROUPS)
    )
    found = (_find(each, _unresolved_of(each), conn) for each in conn.execute(query).scalars())
    return tuple(each for each in found if each is not None)


def _unresolved_of(group_id: str) -> MessageFilter:
    unresolved = frozenset({FailedMessageStatus.UNRESOLVED})
    return MessageFilter(statuses=unresolved, selection=Selection(group=group_id))


def _add_retries(
    counted: Sequence[GroupCount], conditions: Sequence[ColumnElement[bool]], conn: Connection
) -> tuple[GroupCount, ...]:
    alive = _alive_operations(conn)
    known = {each.group.group_id for each in counted}
    others = select(failure_groups).where(
        groups.group_id.in_(sorted(alive.keys() - known)), *conditions
    )
    uncounted = {"count": 0, "first": None, "last": None}
    emptied = [_group_count({**row, **uncounted}) for row in conn.execute(others).mappings()]
    return tuple(
        replace(each, operation=alive.get(each.group.group_id)) for each in (*counted, *emptied)
    )


def _find(group_id: str, wanted: MessageFilter, conn: Connection) -> GroupCount | None:
    group = select(failure_groups).where(groups.group_id == group_id)
    row = conn.execute(group).mappings().one_or_none()
    if row is None:
        return None
    query = select(
        func.count().label("count"),
        func.min(messages.first_failure).label("first"),
        func.max(messages.last_failure).label("last"),
    ).where(*seeking(wanted))
    counts = conn.execute(query).mappings().one()
    return _group_count({**row, **counts})


def _alive_operations(conn: Connection) -> dict[str, RetryOperation]:
    """Return the oldest retry alive of each group: it holds the claims of the others' messages."""
    query = (
        select(retry_operations)
        .where(retry_operations.c.retry_type == RetryType.FAILURE_GROUP, is_alive())
        .order_by(retry_operations.c.created_at.desc())
    )
    alive = [operations.from_row(dict(row)) for row in conn.execute(query).mappings()]
    return {each.selection.group: each for each in alive if each.selection.group}


def _group_count(row: Mapping[str, Any]) -> GroupCount:
    group = FailureGroup(group_id=row["group_id"], classifier=row["classifier"], title=row["title"])
    return GroupCount(group=group, count=row["count"], first=row["first"], last=row["last"])
