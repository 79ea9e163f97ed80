"""Failure groups with their unresolved messages counted, and the retries alive for them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from sqlalchemy import ColumnElement, Connection, func, select

from retrier.domain.failed_message import FailedMessageStatus
from retrier.domain.failure_group import FailureGroup
from retrier.domain.retry_operation import RetryOperation, RetryType
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


def list_groups(db: Database, classifier: str, title: str | None = None) -> tuple[GroupCount, ...]:
    """Return a classifier's groups, at most 200, newest failure first.

    Only those with unresolved messages, or with a retry alive: while it runs, no message of its
    group may be unresolved any more. Raises DatabaseUnavailable.
    """
    return db.read(partial(_list, classifier, title))


def find_group(db: Database, group_id: str, wanted: MessageFilter) -> GroupCount | None:
    """Return a group with its matching messages counted, or None. Raises DatabaseUnavailable."""
    return db.read(partial(_find, group_id, wanted))


def find_title(db: Database, group_id: str) -> str | None:
    """Return the title of a group, or None. Raises DatabaseUnavailable."""
    query = select(groups.title).where(groups.group_id == group_id)
    return db.read(lambda conn: conn.execute(query).scalar_one_or_none())


def _list(classifier: str, title: str | None, conn: Connection) -> tuple[GroupCount, ...]:
    of_classifier = [groups.classifier == classifier]
    if title is not None:
        of_classifier.append(groups.title == title)
    alive = _alive_operations(conn)
    counted = _counted(conn, of_classifier)
    known = {row["group_id"] for row in counted}
    waiting = select(failure_groups).where(
        *of_classifier, groups.group_id.in_(sorted(alive.keys() - known))
    )
    nothing = {"count": 0, "first": None, "last": None}
    rows = [*counted, *({**row, **nothing} for row in conn.execute(waiting).mappings())]
    return tuple(_group_count(row, alive) for row in rows)


def _counted(
    conn: Connection, of_classifier: Sequence[ColumnElement[bool]]
) -> list[dict[str, Any]]:
    last = func.max(messages.last_failure)
    counts = (
        select(
            members.group_id,
            func.count().label("count"),
            func.min(messages.first_failure).label("first"),
            last.label("last"),
        )
        .join_from(failed_message_groups, failure_groups)
        .join(failed_messages, messages.unique_message_id == members.unique_message_id)
        .where(messages.status == FailedMessageStatus.UNRESOLVED, *of_classifier)
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
    return [dict(row) for row in conn.execute(query).mappings()]


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
    return _group_count({**row, **counts}, _alive_operations(conn))


def _alive_operations(conn: Connection) -> dict[str, RetryOperation]:
    """Return the oldest retry alive of each group: it holds the claims of the others' messages."""
    query = (
        select(retry_operations)
        .where(retry_operations.c.retry_type == RetryType.FAILURE_GROUP, is_alive())
        .order_by(retry_operations.c.created_at.desc())
    )
    alive = [operations.from_row(dict(row)) for row in conn.execute(query).mappings()]
    return {each.selection.group: each for each in alive if each.selection.group}


def _group_count(row: Mapping[str, Any], alive: Mapping[str, RetryOperation]) -> GroupCount:
    group = FailureGroup(group_id=row["group_id"], classifier=row["classifier"], title=row["title"])
    return GroupCount(
        group=group,
        count=row["count"],
        first=row["first"],
        last=row["last"],
        operation=alive.get(group.group_id),
    )
