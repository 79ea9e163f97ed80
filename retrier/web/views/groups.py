"""Failure groups as rows: the cause first, then where, then how many."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from retrier.domain.archive_operation import ArchiveOperation
from retrier.domain.classifiers import CLASSIFIERS
from retrier.domain.comments import Comment
from retrier.domain.failed_message import FailureGroup
from retrier.store.queries.groups import GroupCount
from retrier.web.snapshot import CountLine, Snapshot
from retrier.web.views.operations import OperationLine, operation_line
from retrier.web.wording import number, plural, sentence

SLUGS: Mapping[str, str] = dict(
    zip(("exception", "type", "queue", "endpoint"), CLASSIFIERS, strict=True)
)
"""The classifiers as they stand in addresses."""

NAMES: Mapping[str, str] = {
    "exception": "exception",
    "type": "message type",
    "queue": "queue",
    "endpoint": "endpoint",
}
"""The classifiers as people read them."""


class GroupSort(StrEnum):
    """What the groups can be sorted by."""

    LAST = "last"
    FIRST = "first"
    COUNT = "count"
    TITLE = "title"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    """One group. `live` is how the keys of its texts begin, `waits` why messages of it wait."""

    group_id: str
    title: str
    live: str
    count: int
    dead: int = 0
    scheduled: int = 0
    first: datetime | None = None
    last: datetime | None = None
    queues: tuple[str, ...] = ()
    sample: str | None = None
    operation: OperationLine | None = None
    archive: str | None = None
    waits: str | None = None
    comment: Comment | None = None

    @property
    def is_retried(self) -> bool:
        """Whether a retry of it is not over."""
        return self.operation is not None and not self.operation.is_over

    @property
    def may_be_retried(self) -> bool:
        """Whether it has a message that a retry would take."""
        return self.count > self.dead and not self.is_retried


def counted(classifier: str, lines: Sequence[CountLine]) -> Sequence[GroupCount]:
    """Return lines as the store counts groups, to have their retries added."""
    return [
        GroupCount(
            group=FailureGroup(group_id=each.key, classifier=classifier, title=each.title),
            count=each.count,
            first=each.first,
            last=each.last,
        )
        for each in lines
    ]


def rows(
    found: Snapshot,
    classifier: str,
    groups: Sequence[GroupCount],
    waits: Mapping[str, str],
    comments: Mapping[str, Comment],
) -> Sequence[GroupRow]:
    """Return groups as rows; `waits` says by group why messages wait, `comments` what people say."""
    lines = {each.key: each for each in found.groups.get(classifier, ())}
    made = (_row(found, each, lines.get(each.group.group_id)) for each in groups)
    return [
        replace(
            each,
            waits=(why := waits.get(each.group_id)) and sentence(why),
            comment=comments.get(each.group_id),
        )
        for each in made
    ]


def _row(found: Snapshot, each: GroupCount, line: CountLine | None) -> GroupRow:
    plain = GroupRow(
        group_id=each.group.group_id,
        title=each.group.title,
        live=f"{group_prefix(each.group.classifier)}{each.group.group_id}",
        count=each.count,
        operation=_operation(found, each),
        archive=None if each.archive is None else _tell(each.archive),
    )
    return plain if line is None else _with(plain, line)


def _with(row: GroupRow, line: CountLine) -> GroupRow:
    return replace(
        row,
        count=line.count,
        dead=line.dead,
        scheduled=line.scheduled,
        first=line.first,
        last=line.last,
        queues=line.queues,
        sample=line.sample,
    )


def group_prefix(classifier: str) -> str:
    """Return how the keys of a classifier's groups begin: `group/0/`."""
    known = CLASSIFIERS.index(classifier) if classifier in CLASSIFIERS else len(CLASSIFIERS)
    return f"group/{known}/"


def _operation(found: Snapshot, each: GroupCount) -> OperationLine | None:
    """Return its retry, if that is alive or nobody has taken note of its end."""
    shown = each.operation
    if shown is None or (shown.completed_at is not None and shown.acknowledged_at is not None):
        return None
    outcomes, obstacles = found.outcomes.get(shown.operation_id), found.work.queue.obstacles
    return operation_line(shown, found.at, outcomes, obstacles=obstacles)


def _tell(archive: ArchiveOperation) -> str:
    if archive.completed_at is None:
        return f"{number(archive.done)} of {number(archive.total)} archived"
    return f"{plural(archive.done, 'message')} archived"


def _newest(each: GroupRow) -> float:
    """Return when something happened last: one that has only a retry left goes by its request."""
    begun = None if each.operation is None else each.operation.created_at
    last = each.last or begun
    return last.timestamp() if last else 0.0


def _oldest(each: GroupRow) -> float:
    return each.first.timestamp() if each.first else 0.0


_KEYS: Mapping[GroupSort, Callable[[GroupRow], Any]] = {
    GroupSort.LAST: _newest,
    GroupSort.FIRST: _oldest,
    GroupSort.COUNT: lambda each: each.count,
    GroupSort.TITLE: lambda each: each.title.lower(),
}


def ordered(groups: Sequence[GroupRow], sort: GroupSort, *, descending: bool) -> Sequence[GroupRow]:
    """Return them sorted."""
    return sorted(groups, key=_KEYS[sort], reverse=descending)


def matching(groups: Sequence[GroupRow], text: str) -> Sequence[GroupRow]:
    """Return those that hold this text, in any case, in what is shown of them."""
    wanted = text.lower()
    return [each for each in groups if any(wanted in shown.lower() for shown in _texts(each))]


def _texts(each: GroupRow) -> Iterator[str]:
    yield from (each.title, each.sample or "", *each.queues)
