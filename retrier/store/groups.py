"""Failure groups and causes: found at the first failure, and counted for people."""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from enum import IntEnum
from typing import Any

from sqlalchemy import (
    ColumnElement,
    FromClause,
    Label,
    Select,
    exists,
    func,
    literal,
    or_,
    select,
    union_all,
)

from retrier.domain.archive_operation import (
    Act,
    ArchiveOperation,
    parts_to_store,
)
from retrier.domain.classifiers import GroupKey
from retrier.domain.failed_message import Cause, Disposition, FailedMessageStatus, FailureGroup
from retrier.domain.failure_texts import fold
from retrier.domain.identity import canonical, is_guid
from retrier.domain.retry_operation import RetryOperation, RetryType
from retrier.domain.selection import Selection, bounds_of
from retrier.domain.text import IdRange
from retrier.domain.values import dataclass
from retrier.store import operation_lists
from retrier.store.archive_lists import OPEN, archive_from_row
from retrier.store.engine.database import reading
from retrier.store.engine.sql_dialect import by_code_point
from retrier.store.engine.transaction import Transaction
from retrier.store.event_log import short
from retrier.store.message_lists import Page, PageRequest
from retrier.store.operation_lists import finished_of_groups, group_of
from retrier.store.schema import (
    archive_operations,
    cause_groups,
    causes,
    failed_messages,
    failure_groups,
    retry_operations,
)
from retrier.store.selections import Condition, conditions, conditions_looked_up

messages = failed_messages.c
members = cause_groups.c
groups = failure_groups.c
columns = archive_operations.c


_TEXTS = [
    "queue",
    "destination",
    "endpoint",
    "message_type",
    "exception_type",
    "failure_reason",
    "exception_message",
]

Numbered = Mapping[str, int]
"""The ids of causes by their fingerprints."""


def identify_causes(tx: Transaction, wanted: Iterable[Cause]) -> Numbered:
    """Return the ids of these causes by fingerprint; adds those that are new."""
    distinct = {cause.fingerprint: cause for cause in wanted}
    if not distinct:
        return {}
    known = _find_causes(tx, list(distinct))
    new = [distinct[key] for key in sorted(distinct.keys() - known.keys())]
    return {**known, **_add_causes(tx, new)} if new else known


def _find_causes(tx: Transaction, fingerprints: Sequence[str]) -> dict[str, int]:
    column = causes.c.fingerprint
    query = select(column, causes.c.cause_id).where(tx.sql.member(column, fingerprints))
    return {row[0]: row[1] for row in tx.execute(query)}


def _add_causes(tx: Transaction, new: Sequence[Cause]) -> dict[str, int]:
    """Add causes in order of fingerprint: two instances that add the same must not deadlock."""
    columns: dict[str, list[str | None]] = {
        name: [short(getattr(cause, name)) for cause in new] for name in _TEXTS
    }
    columns["fingerprint"] = [cause.fingerprint for cause in new]
    tx.sql.add_missing(tx.conn, causes, columns, {"created_at": tx.now})
    # Read all ids back: another process may have added some of these causes meanwhile.
    numbers = _find_causes(tx, [cause.fingerprint for cause in new])
    _add_groups(tx, new)
    members = sorted(
        (numbers[cause.fingerprint], group.group_id) for cause in new for group in cause.groups
    )
    if members:
        ids, group_ids = zip(*members, strict=True)
        tx.sql.add_missing(tx.conn, cause_groups, {"cause_id": ids, "group_id": group_ids}, {})
    return numbers


def _add_groups(tx: Transaction, new: Sequence[Cause]) -> None:
    groups = {group.group_id: group for cause in new for group in cause.groups}
    keys = sorted(groups)
    columns = {
        "group_id": keys,
        "classifier": [groups[key].classifier for key in keys],
        "title": [short(groups[key].title) or "" for key in keys],
    }
    if keys:
        tx.sql.add_missing(tx.conn, failure_groups, columns, {})


_UNRESOLVED = frozenset({FailedMessageStatus.UNRESOLVED})
_NUMBERS = (
    func.count().label("count"),
    func.count().filter(messages.disposition == Disposition.SCHEDULED).label("scheduled"),
    func.count().filter(messages.disposition == Disposition.DEAD).label("dead"),
    func.min(messages.first_failure).label("first"),
    # The first failure of a message may be of another group; its last one is of this.
    func.min(messages.last_failure).label("surely"),
    func.max(messages.last_failure).label("last"),
)

_COUNTS = ("count", "scheduled", "dead")

_ARCHIVED = frozenset({FailedMessageStatus.ARCHIVED})


def _numbers_by_cause(statuses: frozenset[FailedMessageStatus]) -> FromClause:
    """Count by cause first: joined to groups, a message would be a row for each classifier."""
    return (
        select(messages.cause_id, *_NUMBERS)
        .where(*conditions(Selection(statuses=statuses)))
        .group_by(messages.cause_id)
        .subquery()
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCount:
    """A group, the count and first and last failure of its messages, and its retry.

    Of the `count` messages so many are `scheduled` and so many `dead`. `first_seen` is when it was
    first heard of, also by messages that are dealt with since.
    That is the unfinished one, or else the last one that is over. `archive` is what archives it, or has done so lately.
    """

    group: FailureGroup
    count: int
    first: datetime | None
    last: datetime | None
    scheduled: int = 0
    dead: int = 0
    first_seen: datetime | None = None
    operation: RetryOperation | None = None
    archive: ArchiveOperation | None = None


_RECORDED = (
    select(
        func.min(
            select(causes.c.created_at)
            .where(causes.c.cause_id == members.cause_id)
            .correlate(cause_groups)
            .scalar_subquery()
        )
    )
    .where(members.group_id == groups.group_id)
    .correlate(failure_groups)
    .scalar_subquery()
    .label("recorded")
)
"""When the first failure of a group was recorded. Causes stay when their messages are deleted.

Each cause is found by its key: of a join, the database might read all causes for each group.
"""


@reading
def count_groups(
    tx: Transaction, classifier: str, title: str | None = None
) -> tuple[GroupCount, ...]:
    """Return a classifier's groups with unresolved messages, newest failure first.

    Reads every unresolved message once: slow if there are many. Raises DatabaseUnavailable.
    """
    return _count(tx, _UNRESOLVED, classifier, title)


@reading
def count_archived_groups(tx: Transaction, classifier: str) -> tuple[GroupCount, ...]:
    """Return the same of archived messages. Raises DatabaseUnavailable."""
    return _count(tx, _ARCHIVED, classifier, None)


def _count(
    tx: Transaction,
    statuses: frozenset[FailedMessageStatus],
    classifier: str,
    title: str | None,
) -> tuple[GroupCount, ...]:
    by_cause = _numbers_by_cause(statuses)
    counts = (
        select(
            members.group_id,
            func.sum(by_cause.c["count"]).label("count"),
            func.sum(by_cause.c.scheduled).label("scheduled"),
            func.sum(by_cause.c.dead).label("dead"),
            func.min(by_cause.c.first).label("first"),
            func.min(by_cause.c.surely).label("surely"),
            func.max(by_cause.c.last).label("last"),
        )
        .join_from(by_cause, cause_groups, members.cause_id == by_cause.c.cause_id)
        # A join: of a list of ids, SQLite would try each for each cause.
        .join(failure_groups, groups.group_id == members.group_id)
        .where(*_of_classifier(classifier, title))
        .group_by(members.group_id)
        .subquery()
        .c
    )
    query = (
        select(
            failure_groups,
            *(counts[name] for name in _COUNTS),
            counts.first,
            counts.surely,
            counts.last,
            _RECORDED,
        )
        .join(counts.group_id.table, counts.group_id == groups.group_id)
        .order_by(counts.last.desc(), groups.group_id)
    )
    tx.sql.read_once_in_joins(tx.conn)
    return tuple(_group_count(dict(row)) for row in tx.execute(query).mappings())


@reading
def find_groups(
    tx: Transaction, classifier: str, ids: IdRange, page: PageRequest
) -> Page[GroupCount]:
    """Return a classifier's groups in a range of ids, also those without unresolved messages.

    Raises DatabaseUnavailable.
    """
    query = (
        select(groups.group_id)
        .where(groups.classifier == classifier, groups.group_id.between(ids.first, ids.last))
        .order_by(groups.group_id)
    )
    keys = tx.execute(query).scalars().all()
    shown = keys[page.offset : page.offset + page.size]
    found = (_find(tx, each, _unresolved_of(each)) for each in shown)
    return Page(items=tuple(each for each in found if each is not None), total=len(keys))


def find_uncounted(
    tx: Transaction, group_ids: Sequence[str], classifier: str, title: str | None
) -> Sequence[GroupCount]:
    """Return those of these groups that belong to the classifier, with no message counted."""
    others = select(failure_groups, _RECORDED).where(
        tx.sql.member(groups.group_id, group_ids), *_of_classifier(classifier, title)
    )
    uncounted = {**dict.fromkeys(_COUNTS, 0), "first": None, "surely": None, "last": None}
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
    group = select(failure_groups, _RECORDED).where(groups.group_id == group_id)
    row = tx.execute(group).mappings().one_or_none()
    if row is None:
        return None
    found = conditions_looked_up(tx, wanted)
    counts = tx.execute(select(*_NUMBERS).where(*found)).mappings().one()
    return _group_count({**row, **counts})


def _alive_operations(tx: Transaction) -> dict[str, RetryOperation]:
    """Return the oldest unfinished retry of each group: it has the claims, others skip them."""
    query = (
        operation_lists.whole_operations()
        .where(retry_operations.c.retry_type == RetryType.FAILURE_GROUP, operation_lists.is_alive())
        .order_by(retry_operations.c.created_at.desc())
    )
    alive = [operation_lists.operation_from_row(dict(row)) for row in tx.execute(query).mappings()]
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
        # What failed before the service came to it is older than its record.
        first_seen=min(filter(None, (row["surely"], row["recorded"])), default=None),
    )


_VALUES: Mapping[GroupKey, Callable[[GroupCount], Any]] = {
    GroupKey.LAST: lambda each: each.last,
    GroupKey.FIRST: lambda each: each.first_seen,
    GroupKey.COUNT: lambda each: each.count,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedGroups:
    """Which groups are listed, and in which order: `text` is in the title, in any case."""

    text: str | None = None
    since: datetime | None = None
    key: GroupKey = GroupKey.LAST
    descending: bool = True

    def page_of(self, counted: Iterable[GroupCount], page: PageRequest) -> Page[GroupCount]:
        """Return one page of those that are wanted; without a value to sort by they come last."""
        found = [each for each in counted if self._means(each)]
        value = _VALUES[self.key]
        known = sorted(
            (each for each in found if value(each) is not None), key=value, reverse=self.descending
        )
        ordered = (*known, *(each for each in found if value(each) is None))
        return Page(items=ordered[page.offset : page.offset + page.size], total=len(ordered))

    def _means(self, each: GroupCount) -> bool:
        is_new = self.since is None or (
            each.first_seen is not None and each.first_seen >= self.since
        )
        return is_new and (self.text is None or fold(self.text) in fold(each.group.title))


_HOLDS = or_(
    columns.state.in_(OPEN),
    columns.done == 0,
    exists().where(messages.archive_operation_id == columns.operation_id),
)
"""Whether an archive is not over, or something of it is archived still: else it was taken back."""

SHOWN_FOR = timedelta(days=1)
"""How long a completed operation is shown with its group unless a person takes note of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActsOnGroups:
    """What is retried and archived of groups, or was last, by the group's id.

    `emptied` are the groups that are listed for it, though no message of them is counted: while a
    retry runs, and until a person takes note of its end, and those that are archived.
    """

    retries: Mapping[str, RetryOperation]
    archives: Mapping[str, ArchiveOperation]
    emptied: tuple[GroupCount, ...] = ()

    def add_to(self, counted: GroupCount) -> GroupCount:
        """Return a group with its retry and its archive; if both are over, with the later one."""
        found = replace(counted, operation=self.retries.get(counted.group.group_id))
        return replace(found, archive=_shown(found, self.archives))


@reading
def find_acts(
    tx: Transaction, counted: Container[str], classifier: str, title: str | None = None
) -> ActsOnGroups:
    """Return what is done about groups, and those that are listed beside the counted ones for it.

    It costs as much as was asked for lately, however many groups there are. Raises
    DatabaseUnavailable.
    """
    finished = finished_of_groups(tx)
    unseen = {key: each for key, each in finished.items() if each.acknowledged_at is None}
    alive = _alive_operations(tx)
    archives = dict(_list_archives(tx, _HOLDS))  # the newest of each group
    retried = sorted(each for each in alive.keys() | unseen.keys() if each not in counted)
    archived = sorted(each for each in archives.keys() - {*alive, *unseen} if each not in counted)
    acts = ActsOnGroups(retries=finished | alive, archives=archives)
    emptied = [
        acts.add_to(each)
        for ids in (retried, archived)
        if ids
        for each in find_uncounted(tx, ids, classifier, title)
    ]
    return replace(acts, emptied=tuple(emptied))


def list_group_archives(tx: Transaction) -> Sequence[tuple[str, ArchiveOperation]]:
    """Return what archives whole groups, or did so lately, with the group's id; the oldest first.

    Without those that a person has taken note of.
    """
    return _list_archives(tx)


def _list_archives(tx: Transaction, *more: Condition) -> Sequence[tuple[str, ArchiveOperation]]:
    query = (
        select(archive_operations)
        .where(columns.act == Act.ARCHIVE, columns.acknowledged_at.is_(None), _is_shown(tx), *more)
        .order_by(columns.created_at)
    )
    found = (archive_from_row(dict(row)) for row in tx.execute(query).mappings())
    named = ((each.selection.group, each) for each in found)
    return [(canonical(group), each) for group, each in named if group and _is_whole(each, group)]


def _is_whole(each: ArchiveOperation, group: str) -> bool:
    """Say whether it was asked for by the group and nothing else; bounds are those of a preview."""
    whole = {"group": group, **bounds_of(each.selection)}
    is_narrowed = each.selection.within is not None
    return is_guid(group) and not is_narrowed and parts_to_store(each.selection) == whole


def _is_shown(tx: Transaction) -> Condition:
    lately = columns.completed_at > tx.now - SHOWN_FOR
    return or_(columns.state.in_(OPEN), lately)


def _shown(each: GroupCount, found: Mapping[str, ArchiveOperation]) -> ArchiveOperation | None:
    """Return its archive, unless its retry is alive while that is over, or ended later."""
    archive, retry = found.get(each.group.group_id), each.operation
    if archive is None or archive.completed_at is None or retry is None:
        return archive
    if retry.completed_at is None or retry.completed_at > archive.completed_at:
        return None
    return archive


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


_ALL_BY_CAUSE = select(messages.cause_id, func.count().label("number")).group_by(messages.cause_id)


_UNRESOLVED_BY_CAUSE = (
    _ALL_BY_CAUSE.group_by(messages.host)
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
        _count_by(causes.c.queue, _ALL_BY_CAUSE.subquery()).order_by(by_code_point(causes.c.queue))
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


_SHOWN_ENDPOINT = func.coalesce(causes.c.endpoint, causes.c.queue)
"""What lists show, and what a condition on the endpoint means."""

MOST_ENDPOINTS = 1000
"""Endpoints that are listed."""


@reading
def list_endpoints(tx: Transaction) -> tuple[str, ...]:
    """Return the endpoints at which messages failed, as lists show them, in order.

    Raises DatabaseUnavailable.
    """
    names = select(_SHOWN_ENDPOINT.label("name")).distinct().subquery()
    query = select(names.c.name).order_by(by_code_point(names.c.name)).limit(MOST_ENDPOINTS)
    return tuple(tx.execute(query).scalars())


class _Part(IntEnum):
    """What a line of the summary counts."""

    ENDPOINT = 1
    MESSAGE_TYPE = 2
    DISPOSITION = 3
    HOST = 4


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
