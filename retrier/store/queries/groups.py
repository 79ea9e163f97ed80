"""Failure groups: counts of their unresolved messages, and their unfinished retries."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import func, select

from retrier.domain.archive_operation import ArchiveOperation
from retrier.domain.failed_message import Disposition, FailedMessageStatus, FailureGroup
from retrier.domain.identity import canonical, is_guid
from retrier.domain.retry_operation import RetryOperation, RetryType
from retrier.domain.selection import Selection
from retrier.domain.text import IdRange
from retrier.store.engine.database import reading
from retrier.store.engine.transaction import Transaction
from retrier.store.queries import operations
from retrier.store.queries.history import finished_of_groups, group_of
from retrier.store.queries.selections import Condition, conditions, conditions_looked_up
from retrier.store.schema import (
    cause_groups,
    failed_messages,
    failure_groups,
    retry_operations,
)

MOST_GROUPS = 200
"""Groups a list holds at most (ServiceControl: GroupsDataStore)."""

messages = failed_messages.c
members = cause_groups.c
groups = failure_groups.c

_UNRESOLVED = frozenset({FailedMessageStatus.UNRESOLVED})
_NUMBERS = (
    func.count().label("count"),
    func.count().filter(messages.disposition == Disposition.SCHEDULED).label("scheduled"),
    func.count().filter(messages.disposition == Disposition.DEAD).label("dead"),
    func.min(messages.first_failure).label("first"),
    func.max(messages.last_failure).label("last"),
)

_COUNTS = ("count", "scheduled", "dead")

_BY_CAUSE = (
    select(messages.cause_id, *_NUMBERS)
    .where(*conditions(Selection(statuses=_UNRESOLVED)))
    .group_by(messages.cause_id)
    .subquery()
)
"""Counted by cause first: joined to groups, a message would be a row for each classifier."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCount:
    """A group, the count and first and last failure of its messages, and its retry.

    Of the `count` messages so many are `scheduled` and so many `dead`.
    That is the unfinished one, or else the last one that is over. `archive` is what archives it, or has done so lately.
    """

    group: FailureGroup
    count: int
    first: datetime | None
    last: datetime | None
    scheduled: int = 0
    dead: int = 0
    operation: RetryOperation | None = None
    archive: ArchiveOperation | None = None


@reading
def count_groups(
    tx: Transaction, classifier: str, title: str | None = None
) -> tuple[GroupCount, ...]:
    """Return a classifier's groups with unresolved messages, at most 200, newest failure first.

    Reads every unresolved message once: slow if there are many. Raises DatabaseUnavailable.
    """
    counts = (
        select(
            members.group_id,
            func.sum(_BY_CAUSE.c["count"]).label("count"),
            func.sum(_BY_CAUSE.c.scheduled).label("scheduled"),
            func.sum(_BY_CAUSE.c.dead).label("dead"),
            func.min(_BY_CAUSE.c.first).label("first"),
            func.max(_BY_CAUSE.c.last).label("last"),
        )
        .join_from(_BY_CAUSE, cause_groups, members.cause_id == _BY_CAUSE.c.cause_id)
        .where(
            members.group_id.in_(select(groups.group_id).where(*_of_classifier(classifier, title)))
        )
        .group_by(members.group_id)
        .order_by(func.max(_BY_CAUSE.c.last).desc(), members.group_id)
        .limit(MOST_GROUPS)
        .subquery()
        .c
    )
    query = (
        select(failure_groups, *(counts[name] for name in _COUNTS), counts.first, counts.last)
        .join(counts.group_id.table, counts.group_id == groups.group_id)
        .order_by(counts.last.desc(), groups.group_id)
    )
    return tuple(_group_count(dict(row)) for row in tx.execute(query).mappings())


@reading
def find_groups(tx: Transaction, classifier: str, ids: IdRange) -> tuple[GroupCount, ...]:
    """Return a classifier's groups in a range of ids, also those without unresolved messages.

    At most 200. Raises DatabaseUnavailable.
    """
    query = (
        select(groups.group_id)
        .where(groups.classifier == classifier, groups.group_id.between(ids.first, ids.last))
        .order_by(groups.group_id)
        .limit(MOST_GROUPS)
    )
    found = (_find(tx, each, _unresolved_of(each)) for each in tx.execute(query).scalars())
    return tuple(each for each in found if each is not None)


@reading
def add_retries(
    tx: Transaction, counted: Sequence[GroupCount], classifier: str, title: str | None = None
) -> tuple[GroupCount, ...]:
    """Return the groups with their retries, and other groups whose retry is to be shown, too.

    While a retry runs, and until a person acknowledges its end, its group may have no unresolved
    message, so it was not counted. Raises DatabaseUnavailable.
    """
    finished = finished_of_groups(tx)
    unseen = {key: each for key, each in finished.items() if each.acknowledged_at is None}
    alive = _alive_operations(tx)
    emptied = (alive.keys() | unseen.keys()) - {each.group.group_id for each in counted}
    more = find_uncounted(tx, sorted(emptied), classifier, title)
    last = finished | alive
    return tuple(
        replace(each, operation=last.get(each.group.group_id)) for each in (*counted, *more)
    )


def find_uncounted(
    tx: Transaction, group_ids: Sequence[str], classifier: str, title: str | None
) -> Sequence[GroupCount]:
    """Return those of these groups that belong to the classifier, with no message counted."""
    others = select(failure_groups).where(
        tx.sql.member(groups.group_id, group_ids), *_of_classifier(classifier, title)
    )
    uncounted = {**dict.fromkeys(_COUNTS, 0), "first": None, "last": None}
    return [_group_count({**row, **uncounted}) for row in tx.execute(others).mappings()]


@reading
def find_group(tx: Transaction, group_id: str, wanted: Selection) -> GroupCount | None:
    """Return a group with the count of matching messages, or None. Raises DatabaseUnavailable."""
    return _find(tx, canonical(group_id), wanted) if is_guid(group_id) else None


@reading
def find_title(tx: Transaction, group_id: str) -> str | None:
    """Return the title of a group, or None. Raises DatabaseUnavailable."""
    if not is_guid(group_id):
        return None
    query = select(groups.title).where(groups.group_id == canonical(group_id))
    return tx.execute(query).scalar_one_or_none()


def _of_classifier(classifier: str, title: str | None) -> list[Condition]:
    by_title = [] if title is None else [groups.title == title]
    return [groups.classifier == classifier, *by_title]


def _unresolved_of(group_id: str) -> Selection:
    return Selection(statuses=_UNRESOLVED, group=group_id)


def _find(tx: Transaction, group_id: str, wanted: Selection) -> GroupCount | None:
    group = select(failure_groups).where(groups.group_id == group_id)
    row = tx.execute(group).mappings().one_or_none()
    if row is None:
        return None
    found = conditions_looked_up(tx, wanted)
    counts = tx.execute(select(*_NUMBERS).where(*found)).mappings().one()
    return _group_count({**row, **counts})


def _alive_operations(tx: Transaction) -> dict[str, RetryOperation]:
    """Return the oldest unfinished retry of each group: it has the claims, others skip them."""
    query = (
        select(retry_operations)
        .where(retry_operations.c.retry_type == RetryType.FAILURE_GROUP, operations.is_alive())
        .order_by(retry_operations.c.created_at.desc())
    )
    alive = [operations.operation_from_row(dict(row)) for row in tx.execute(query).mappings()]
    return {group: each for each in alive if (group := group_of(each)) is not None}


def _group_count(row: Mapping[str, Any]) -> GroupCount:
    group = FailureGroup(group_id=row["group_id"], classifier=row["classifier"], title=row["title"])
    return GroupCount(
        group=group,
        count=int(row["count"]),
        scheduled=int(row["scheduled"]),
        dead=int(row["dead"]),
        first=row["first"],
        last=row["last"],
    )
