"""Failure groups: listed, retried, archived, commented on, and taken note of when they are over."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from heapq import merge
from itertools import islice
from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Request, Response

from retrier.domain.archive_operation import Act, ArchiveOperation
from retrier.domain.classifiers import CLASSIFIERS
from retrier.domain.comments import LONGEST, Comment, CommentRefusal
from retrier.domain.failed_message import FailureGroup
from retrier.domain.fields import NoCondition, check_name, is_askable
from retrier.domain.identity import canonical
from retrier.domain.selection import Selection
from retrier.domain.text import clean
from retrier.domain.values import dataclass
from retrier.errors import DatabaseUnavailable
from retrier.http.filters import read_time
from retrier.http.views import DIRECTIONS, SLUGS, GroupSort, choose
from retrier.store.comments import find_comments
from retrier.store.engine.database import Database
from retrier.store.fields import count_values
from retrier.store.groups import ActsOnGroups, GroupCount, find_acts, find_title, list_hosts
from retrier.store.wait_reasons import why_groups_wait
from retrier.web.counts import NEW_FOR, CountLine, Snapshot
from retrier.web.filters import Selected, group_title
from retrier.web.forms import SentForm, local
from retrier.web.operation_lines import OperationLine, operation_line
from retrier.web.page import IN_FULL, see_other, show
from retrier.web.pages import PAGE, PagedList, page_number
from retrier.web.parts import PageParts, Parts
from retrier.web.previews import ask_before, show_preview
from retrier.web.wording import number, plural, sentence, title_words

DEFAULT = next(iter(SLUGS))

NAMES: Mapping[str, str] = {
    "exception": "exception",
    "type": "message type",
    "queue": "queue",
    "endpoint": "endpoint",
}
"""The classifiers as people read them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    """One group. `live` is how the keys of its texts begin, `waits` why messages of it wait."""

    group_id: str
    title: str
    live: str
    count: int
    dead: int = 0
    scheduled: int = 0
    first_seen: datetime | None = None
    is_new: bool = False
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
    def is_all_taken(self) -> bool:
        """Whether its retry that is not over takes all of it, so that nothing is left to act on.

        What has failed since it was asked for, and what is behind its limit, is not taken by it.
        """
        taken = self.operation
        if taken is None or taken.is_over or not self.count:
            return False
        is_partial = taken.limit is not None or (
            self.last is not None and self.last > taken.created_at
        )
        return not is_partial or self.count - self.dead <= taken.total - taken.done

    @property
    def may_be_retried(self) -> bool:
        """Whether it has a message that another retry would take."""
        return self.count > self.dead and not self.is_all_taken

    @property
    def may_be_archived(self) -> bool:
        """Whether it has a message that an archive would take."""
        return self.count > 0 and not self.is_all_taken


def group_prefix(classifier: str) -> str:
    """Return how the keys of a classifier's groups begin: `group/0/`."""
    known = CLASSIFIERS.index(classifier) if classifier in CLASSIFIERS else len(CLASSIFIERS)
    return f"group/{known}/"


def _operation(found: Snapshot, each: GroupCount) -> OperationLine | None:
    """Return its retry, if that is alive or nobody has taken note of its end."""
    shown = each.operation
    if shown is None or (shown.completed_at is not None and shown.acknowledged_at is not None):
        return None
    return operation_line(shown, found.at, obstacles=found.work.queue.obstacles)


def _archive_text(archive: ArchiveOperation) -> str:
    if archive.completed_at is None:
        return f"{number(archive.done)} of {number(archive.total)} archived"
    return f"{plural(archive.done, 'message')} archived"


Listed = CountLine | GroupCount
"""A group before its row is built: with its counts, or listed for its retry or archive only."""


def _title_of(each: Listed) -> str:
    return title_words(each.title if isinstance(each, CountLine) else each.group.title)


def _texts_of(each: Listed) -> tuple[str, ...]:
    """Return what is shown of a group, and so what a text may be in."""
    if isinstance(each, GroupCount):
        return (_title_of(each),)
    return (_title_of(each), _sample_of(each) or "", *each.queues)


def _sample_of(line: CountLine) -> str | None:
    """Return the sample unless title and sample both name the queue: a third time is too much."""
    queue = line.queues[0]
    is_named = queue in line.title and line.sample is not None and queue in line.sample
    return None if is_named else line.sample


def _newest(each: Listed) -> float:
    """Return when something happened last: one that has only a retry left goes by its request."""
    if isinstance(each, CountLine):
        return each.last.timestamp()
    return each.operation.created_at.timestamp() if each.operation else 0.0


_KEYS: Mapping[GroupSort, Callable[[Listed], Any]] = {
    GroupSort.LAST: _newest,
    GroupSort.FIRST: lambda each: each.first_seen.timestamp() if each.first_seen else 0.0,
    GroupSort.COUNT: lambda each: each.count,
    GroupSort.TITLE: lambda each: _title_of(each).lower(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupQuery:
    """What the list is asked for; without a word its address means the default.

    `by` is a classifier, as it stands in addresses. `since` is written as a person did: `2h`, or a
    time.
    """

    by: str
    text: str
    since: str
    sort: GroupSort
    descending: bool
    page: int


def read_query(
    by: str = "",
    text: str = "",
    since: str = "",
    sort: str = "",
    direction: str = "",
    page: str = "",
) -> GroupQuery:
    """Return what the address of the list asks for. Raises WrongField."""
    return GroupQuery(
        by=choose(by, "by", SLUGS) or DEFAULT,
        text=text.strip(),
        since=since.strip(),
        sort=GroupSort(choose(sort, "sort", list(GroupSort)) or GroupSort.LAST),
        descending=choose(direction, "direction", DIRECTIONS) != "asc",
        page=page_number(page),
    )


def _in_order(
    counted: Sequence[Listed], emptied: Sequence[Listed], query: GroupQuery
) -> Iterator[Listed]:
    key = _KEYS[query.sort]
    if query.sort is GroupSort.LAST and query.descending:
        # The snapshot has them so: no more of them is looked at than is shown.
        return merge(counted, sorted(emptied, key=key, reverse=True), key=key, reverse=True)
    return iter(sorted((*counted, *emptied), key=key, reverse=query.descending))


MANY_GROUPS = 1_000
"""From so many on it is told what makes a group of each message."""
_GENERATED = re.compile(r"\d[0-9a-fA-F]*")


def tell_generated(found: Snapshot) -> str | None:
    """Say that generated names make a group of nearly each message, if they do.

    What is generated is mostly a number. The newest groups are looked at, not all of them.
    """
    groups = found.groups.get(CLASSIFIERS[0], ())
    if len(groups) < MANY_GROUPS or 2 * found.alone < len(groups):
        return None
    looked_at = [each.title for each in groups[:MANY_GROUPS] if each.count == 1]
    alike = Counter(_GENERATED.sub("*", title) for title in looked_at)
    name, count = next(iter(alike.most_common(1)), ("", 0))
    if 2 * count < len(looked_at) or name in looked_at:
        return None
    return (
        f"{number(found.alone)} of {number(len(groups))} groups have one message each. Most are named "
        f"“{title_words(name)}”, with another text in place of each *. Such names are generated: "
        "the setting ingestion.generated_names makes them one group."
    )


class GroupList:
    """The groups of a classifier, newest failure first; behind them those that have only a retry.

    Counts are those of the snapshot. Retries are looked up now: a click must show at once. Without
    the database they are those of a moment ago, which is better than no page. Rows are built only
    of what is shown: there may be a group for each message.
    """

    def __init__(self, db: Database, found: Snapshot, classifier: str) -> None:
        self._db = db
        self._found = found
        self._classifier = classifier
        self._acts = ActsOnGroups(retries={}, archives={})
        with suppress(DatabaseUnavailable):
            self._acts = find_acts(db, found.group_ids, classifier)
        self.counted: Sequence[CountLine] = found.groups.get(classifier, ())

    def __len__(self) -> int:
        return len(self.counted) + len(self._acts.emptied)

    def find(self, query: GroupQuery, since: datetime | None) -> PagedList[GroupRow]:
        """Return one page of the groups that hold the text in what is shown of them, in any case.

        With `since` only those that have unresolved messages, and were first seen then or later.
        """
        last = query.page * PAGE
        counted = self._matching(self.counted, query.text.lower(), since)
        emptied = self._matching(self._acts.emptied, query.text.lower(), since)
        shown = islice(_in_order(counted, emptied, query), last - PAGE, last)
        return PagedList(
            rows=self.rows(list(shown), since),
            total=len(counted) + len(emptied),
            number=query.page,
            path="/groups",
            values={
                "by": "" if query.by == DEFAULT else query.by,
                "text": query.text,
                "since": query.since,
                "sort": "" if query.sort is GroupSort.LAST else query.sort.value,
                "direction": "" if query.descending else "asc",
            },
        )

    def newest(self, most: int | None = None) -> Sequence[GroupRow]:
        """Return the rows of the first ones, or of all."""
        found: list[Listed] = [*self.counted[:most], *self._acts.emptied]
        return self.rows(found[:most], None)

    def rows(self, shown: Sequence[Listed], since: datetime | None) -> Sequence[GroupRow]:
        """Return their rows. Those that were first seen `since` then are new."""
        groups = [self._with_acts(each) for each in shown]
        ids = [each.group.group_id for each in groups]
        waits: Mapping[str, str] = {}
        comments: Mapping[str, Comment] = {}
        with suppress(DatabaseUnavailable):
            waits = why_groups_wait(self._db, ids)
            comments = find_comments(self._db, ids)
        since = since or self._found.at - NEW_FOR
        rows = []
        for listed, each in zip(shown, groups, strict=True):
            key = each.group.group_id
            row = GroupRow(
                group_id=key,
                title=title_words(each.group.title),
                live=f"{group_prefix(each.group.classifier)}{key}",
                count=each.count,
                first_seen=each.first_seen,
                is_new=each.first_seen is not None and each.first_seen >= since,
                operation=_operation(self._found, each),
                archive=None if each.archive is None else _archive_text(each.archive),
                waits=(why := waits.get(key)) and sentence(why),
                comment=comments.get(key),
            )
            rows.append(_with_counts(row, listed) if isinstance(listed, CountLine) else row)
        return rows

    def _matching(
        self, found: Sequence[Listed], text: str, since: datetime | None
    ) -> Sequence[Listed]:
        if since is not None:
            found = [
                each
                for each in found
                if each.count and each.first_seen and each.first_seen >= since
            ]
        if text:
            found = [each for each in found if any(text in one.lower() for one in _texts_of(each))]
        return found

    def _with_acts(self, each: Listed) -> GroupCount:
        if isinstance(each, GroupCount):
            return each
        group = FailureGroup(group_id=each.key, classifier=self._classifier, title=each.title)
        counted = GroupCount(
            group=group,
            count=each.count,
            first=each.first,
            first_seen=each.first_seen,
            last=each.last,
        )
        return self._acts.add_to(counted)


def _with_counts(row: GroupRow, line: CountLine) -> GroupRow:
    return replace(
        row,
        count=line.count,
        dead=line.dead,
        scheduled=line.scheduled,
        last=line.last,
        queues=line.queues,
        sample=_sample_of(line),
    )


router = APIRouter(prefix="/groups")

ListQuery = Annotated[GroupQuery, Depends(read_query)]


@router.get("")
def get_groups(request: Request, parts: Parts, query: ListQuery) -> Response:
    """List the groups of a classifier."""
    found, classifier = parts.counts.snapshot(), SLUGS[query.by]
    since = read_time(query.since, "query.since")
    return show(
        request,
        "groups.html",
        current="/groups",
        listing=GroupList(parts.db, found, classifier).find(query, since),
        since=since,
        query=query,
        names=NAMES,
        fields=shown_fields(parts),
        generated=tell_generated(found) if query.by == DEFAULT else None,
        live_rows="" if query.text or query.since else group_prefix(classifier),
        counted_at=found.at,
    )


@router.get("/hosts")
def get_hosts(request: Request, parts: Parts) -> Response:
    """List the machines on which unresolved messages failed. They are no groups: see decision 0068."""
    return show(
        request,
        "hosts.html",
        current="/groups",
        names=NAMES,
        fields=shown_fields(parts),
        hosts=list_hosts(parts.db),
        counted_at=parts.counts.now(),
    )


def shown_fields(parts: PageParts) -> Sequence[str]:
    """Return the declared fields by which who asks may group: values are read from content."""
    return parts.field_names if parts.shows_content else ()


@router.get("/fields/{field_name}")
def get_values_of_field(request: Request, field_name: str, parts: Parts) -> Response:
    """List the values of a declared field with their unresolved messages. They are no groups, too."""
    try:
        check_name(field_name, parts.field_names)
    except NoCondition as error:
        raise HTTPException(404, clean(str(error))) from None
    found = parts.cache.get(("values", field_name), partial(count_values, parts.db, field_name))
    return show(
        request,
        "values.html",
        current="/groups",
        names=NAMES,
        fields=shown_fields(parts),
        field_name=field_name,
        found=found,
        more=found.values - len(found.shown),
        askable=[is_askable(field_name, each.value) for each in found.shown],
        counted_at=parts.counts.now(),
    )


@router.get("/{group_id}/retry", dependencies=[IN_FULL])
def preview_retry(request: Request, group_id: str, parts: Parts, back: str = "/groups") -> Response:
    """Show what a retry of the group would do, and the form that asks for it."""
    return show_preview(
        request,
        Selection(group=group_id),
        what=_title(parts, group_id),
        post_to=f"/groups/{group_id}/retry",
        back=local(back, "/groups"),
    )


@router.post("/{group_id}/retry")
def retry(request: Request, group_id: str, parts: Parts, form: SentForm) -> Response:
    """Ask for a retry of what the preview counted; or try a patch out that is new."""
    title, chosen = _title(parts, group_id), Selection(group=group_id)
    asked = form.retry(chosen, f"retry of group {title}", form.terms(parts))
    if form.is_untried(asked):
        return show_preview(
            request,
            chosen,
            what=title,
            post_to=f"/groups/{group_id}/retry",
            back=form.back("/groups"),
            tried=form,
        )
    made = parts.gateway.retry(form.planned(asked))
    return see_other(form.next(f"retry:{made.operation_id}", "/groups"))


@router.get("/{group_id}/archive", dependencies=[IN_FULL])
def ask_before_archive(
    request: Request, group_id: str, parts: Parts, back: str = "/groups"
) -> Response:
    """Show what an archive of the group would set aside, and the form that asks for it."""
    title = _title(parts, group_id)
    chosen = Selected(selection=Selection(group=group_id), words=title, told=title, fields={})
    question = ask_before(
        parts, Act.ARCHIVE, chosen, local(back, "/groups"), f"/groups/{group_id}/archive"
    )
    return show(request, "question.html", current="/groups", question=question)


@router.post("/{group_id}/archive")
def archive(group_id: str, parts: Parts, form: SentForm) -> Response:
    """Archive what the question counted of the group."""
    title = _title(parts, group_id)
    counted = form.counted(Act.ARCHIVE, Selection(group=group_id))
    request = form.archive(Act.ARCHIVE, counted, f"archive of group {title}")
    done = parts.gateway.archives.ask(request).operation
    return see_other(form.next(f"archive:{done.operation_id}", "/groups"))


@router.post("/{group_id}/dismiss")
def dismiss(group_id: str, parts: Parts, form: SentForm) -> Response:
    """Take note that the group's retry or archive is over."""
    parts.gateway.acknowledge_group(group_id, form.requested_by)
    return see_other(form.next("dismissed", "/groups"))


def _title(parts: PageParts, group_id: str) -> str:
    title = find_title(parts.db, group_id)
    if title is None:
        raise HTTPException(404, f"No group has the id {group_id[:100]}.")
    return title


comments_router = APIRouter(prefix="/groups/{group_id}/comment")

_GROUPS = "/groups"


@comments_router.get("")
def get_comment(request: Request, group_id: str, parts: Parts, back: str = _GROUPS) -> Response:
    """Show the comment of a group, and the form that changes it."""
    title = group_title(parts, group_id)
    if title is None:
        raise HTTPException(404, sentence(CommentRefusal.UNKNOWN))
    key = canonical(group_id)
    return show(
        request,
        "comment.html",
        current=_GROUPS,
        group_id=key,
        title=title,
        comment=find_comments(parts.db, [key]).get(key),
        back=local(back, _GROUPS),
        longest=LONGEST,
    )


@comments_router.post("")
def write_comment(group_id: str, parts: Parts, form: SentForm) -> Response:
    """Comment on a group, in place of an earlier comment."""
    # Not `form.text`: a comment may have several lines, and is refused rather than cut.
    written = next(iter(form.values("comment")), "")
    refusal = parts.gateway.comments.write(group_id, written, form.requested_by)
    return _done(refusal, form.next("commented", _GROUPS))


@comments_router.post("/delete")
def delete_comment(group_id: str, parts: Parts, form: SentForm) -> Response:
    """Take the comment of a group away; one that is gone already is gone, too."""
    refusal = parts.gateway.comments.delete(group_id, form.requested_by)
    return _done(refusal, form.next("comment-deleted", _GROUPS))


def _done(refusal: CommentRefusal | None, to: str) -> Response:
    match refusal:
        case None:
            return see_other(to)
        case CommentRefusal.UNKNOWN:
            raise HTTPException(404, sentence(refusal))
        case CommentRefusal.EMPTY | CommentRefusal.TOO_LONG:
            raise HTTPException(422, sentence(refusal))
