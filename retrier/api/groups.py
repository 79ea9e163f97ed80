"""Groups of failed messages, their comments, and the history of their retries."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, TypeVar
from urllib.parse import unquote, unquote_plus

from fastapi import Depends, Query, Request, Response

from retrier.api.answers import (
    HEADERS,
    TOTAL_COUNT,
    Answer,
    Refusal,
    Routes,
    answer,
    present,
    problem,
    time,
)
from retrier.api.archive import archive_of_group
from retrier.api.messages import listed
from retrier.api.operations import outcomes_of
from retrier.api.parts import ApiParts, Parts
from retrier.api.places import MessagesPage
from retrier.api.requests import (
    DIRECTION,
    PAGE_SIZE,
    IdsQuery,
    InContext,
    OrderQuery,
    PageNumber,
    Wanted,
    page_headers,
    read_page,
)
from retrier.api.shapes import camel
from retrier.api.shapes import messages as shapes
from retrier.domain.classifiers import CLASSIFIERS, GroupKey
from retrier.domain.comments import LONGEST, Comment, CommentRefusal
from retrier.domain.failed_message import FailedMessageStatus
from retrier.domain.fields import NoCondition, check_name
from retrier.domain.retry_operation import RetryOperation, RetryOperationState, RetryType
from retrier.domain.selection import Selection
from retrier.domain.text import IdRange, clean
from retrier.http.filters import choice, read_time
from retrier.http.problems import WrongField
from retrier.store.comments import find_comments
from retrier.store.engine.database import Database
from retrier.store.fields import count_values
from retrier.store.groups import (
    GroupCount,
    WantedGroups,
    count_archived_groups,
    count_groups,
    find_acts,
    find_group,
    find_groups,
)
from retrier.store.message_lists import Page, PageRequest, list_messages
from retrier.store.operation_lists import History, read_history
from retrier.store.wait_reasons import why_groups_wait


def comments_of(db: Database, groups: Sequence[GroupCount]) -> Mapping[str, shapes.GroupComment]:
    """Return what is added to those groups that have a comment."""
    found = find_comments(db, [each.group.group_id for each in groups])
    return {group_id: comment(each) for group_id, each in found.items()}


def comment(shown: Comment) -> shapes.GroupComment:
    """Show a comment as a part of its group."""
    return {
        "comment": shown.text,
        "commented_by": shown.who,
        "commented_at": time(shown.written_at),
    }


_ALL = "All"


def history(found: History) -> shapes.RetryHistory:
    """Show the last operations, and those that a person has to acknowledge."""
    return {
        "historic_operations": [_finished(each) for each in found.historic],
        "unacknowledged_operations": [_finished(each) for each in found.unacknowledged],
    }


def is_failed(operation: RetryOperation) -> bool:
    """Say whether a finished operation needs a look: not all of it was sent."""
    return operation.failed > 0 or operation.state is RetryOperationState.CANCELLED


def _finished(finished: RetryOperation) -> shapes.FinishedRetry:
    view: shapes.FinishedRetry = {
        "operation_id": finished.operation_id,
        "request_id": _request_id(finished),
        "retry_type": camel(finished.retry_type),
        "originator": finished.originator,
        "why": finished.why,
        "start_time": time(finished.started_at or finished.created_at),
        "completion_time": time(finished.completed_at),
        "failed": is_failed(finished),
        "number_of_messages_processed": finished.forwarded,
        "outcomes": outcomes_of(finished),
        "is_well": finished.is_well,
    }
    return present(view)


def _request_id(finished: RetryOperation) -> str:
    """Return what was retried; for ids that of the operation, since there may be many."""
    selection = finished.selection
    named = {
        RetryType.FAILURE_GROUP: selection.group,
        RetryType.ALL_FOR_ENDPOINT: selection.endpoint,
        RetryType.BY_QUEUE_ADDRESS: selection.queue,
        RetryType.ALL: _ALL,
    }
    return named.get(finished.retry_type) or finished.operation_id


router = Routes(prefix="/api/recoverability", tags=["groups"])

_UNRESOLVED = frozenset({FailedMessageStatus.UNRESOLVED})
_ARCHIVED = frozenset({FailedMessageStatus.ARCHIVED})
_NO_FILTER = ("", "undefined")
"""What clients send if they want no filter."""


USUAL_GROUPS = 200
"""Groups on a page unless the request says how many: ServiceControl's clients ask for no page, and
get so many from it (GroupsDataStore)."""

_NO_KEY = f"Groups are sorted by one of: {', '.join(GroupKey)}."


def _wanted(
    text: Annotated[str, Query(description="in the title, in any case")] = "",
    since: Annotated[str, Query(description="first seen then or later: ISO 8601, or 2h")] = "",
    sort: Annotated[str, Query(), choice(GroupKey)] = "",
    direction: Annotated[str, Query(), DIRECTION] = "",
) -> WantedGroups:
    if sort and sort not in list(GroupKey):
        raise WrongField("query.sort", _NO_KEY)
    return WantedGroups(
        text=text or None,
        since=read_time(since, "query.since"),
        key=GroupKey(sort or GroupKey.LAST),
        descending=direction != "asc",
    )


def _page(
    page: PageNumber = "",
    per_page: Annotated[str, Query(description=f"{USUAL_GROUPS} by default"), PAGE_SIZE] = "",
) -> PageRequest:
    return read_page(page, per_page, USUAL_GROUPS)


GroupsQuery = Annotated[WantedGroups, Depends(_wanted)]
GroupsPage = Annotated[PageRequest, Depends(_page)]


@router.get("/classifiers")
def get_classifiers(request: Request) -> Answer[Sequence[str]]:
    """List the classifiers, the default one first."""
    return answer(request, CLASSIFIERS, {TOTAL_COUNT: str(len(CLASSIFIERS))})


@router.get("/groups")
@router.get("/groups/{classifier}", name="get_groups_by_classifier")
def get_groups(
    request: Request,
    parts: Parts,
    ids: IdsQuery,
    wanted: GroupsQuery,
    page: GroupsPage,
    classifier: str = CLASSIFIERS[0],
    classifierfilter: Annotated[str, Query(description="the exact title")] = "",
) -> Answer[list[shapes.GroupWithOperation]]:
    """List the groups with unresolved messages, a retry alive, or an archive alive or just done.

    With `id_prefix`: all groups whose id begins so, with or without messages and retries.
    """
    classifier = _known(classifier)
    if ids is not None:
        found = _find(parts, classifier, ids, page)
    else:
        title = None if classifierfilter in _NO_FILTER else classifierfilter
        counted = _count(parts, classifier, title)
        ids_counted = {each.group.group_id for each in counted}
        acts = find_acts(parts.db, ids_counted, classifier, title)
        listed = wanted.page_of((*counted, *acts.emptied), page)
        found = replace(listed, items=tuple(map(acts.add_to, listed.items)))
    return answer(request, _show(parts, found.items), page_headers(request, page, found.total))


archived_router = Routes(prefix="/api", tags=["groups"])


@archived_router.get("/errors/groups")
@archived_router.get("/errors/groups/{classifier}", name="get_archived_groups_by_classifier")
def get_archived_groups(
    request: Request, parts: Parts, classifier: str = CLASSIFIERS[0]
) -> Answer[list[shapes.ArchivedGroup]]:
    """List the groups with archived messages, and how many."""
    known = _known(classifier)
    count = partial(count_archived_groups, parts.db, known)
    is_known = known in CLASSIFIERS
    found = parts.cache.get(("archived groups", known), count) if is_known else count()
    comments = comments_of(parts.db, found)
    items = [_commented(archived_group(each), comments) for each in found]
    return answer(request, items, {TOTAL_COUNT: str(len(items))})


@archived_router.get("/archive/groups/id/{group_id}")
def get_archived_group(
    request: Request, group_id: str, parts: Parts
) -> Answer[shapes.ArchivedGroup] | Refusal:
    """Return one group with its archived messages counted; 404 if it has none."""
    found = find_group(parts.db, group_id, Selection(statuses=_ARCHIVED, group=group_id))
    if found is None or found.count == 0:
        return problem(404, f"No group with archived messages has the id {group_id[:100]}.")
    return answer(request, _commented(archived_group(found), comments_of(parts.db, [found])))


@router.get("/fields/{field_name}")
def get_values_of_field(
    request: Request, field_name: str, parts: Parts
) -> Answer[shapes.ValuesOfField] | Refusal:
    """Count unresolved messages by their values of a declared field, the most first: 200 values.

    They are no groups with ids: the condition `field.NAME` selects the messages of a value.
    """
    try:
        check_name(field_name, parts.field_names)
    except NoCondition as error:
        return problem(404, clean(str(error)))
    found = parts.cache.get(("values", field_name), partial(count_values, parts.db, field_name))
    shown: shapes.ValuesOfField = {
        "field": field_name,
        "total": found.values,
        "messages": found.messages,
        "values": [{"value": each.value, "count": each.count} for each in found.shown],
    }
    return answer(request, shown)


def _known(classifier: str) -> str:
    """Return the name of a classifier as it is written here, in whatever case it was asked for."""
    names = {each.casefold(): each for each in CLASSIFIERS}
    return names.get(classifier.casefold(), classifier)


@router.get("/groups/id/{group_id}")
def get_group(
    request: Request, group_id: str, parts: Parts, wanted: Wanted
) -> Answer[shapes.Group] | Refusal:
    """Return one group with its unresolved messages counted, or those that the filter names."""
    counted = replace(wanted, statuses=wanted.statuses or _UNRESOLVED)
    found = find_group(parts.db, group_id, replace(counted, group=group_id))
    if found is None:
        return problem(404, f"No group has the id {group_id[:100]}.")
    return answer(request, _commented(group(found), comments_of(parts.db, [found])))


@router.head("/groups/{group_id}/errors")
@router.get("/groups/{group_id}/errors")
def get_errors_of_group(
    request: Request,
    group_id: str,
    parts: Parts,
    wanted: Wanted,
    order: OrderQuery,
    page: MessagesPage,
) -> Answer[list[shapes.FailedMessage]]:
    """List the failed messages of one group."""
    of_group = replace(wanted, group=group_id)
    found = list_messages(parts.db, of_group, order, page.wanted, parts.codec)
    items = listed(parts.db, found.items)
    return answer(request, items, page.headers(request, found))


def _show(parts: ApiParts, found: Sequence[GroupCount]) -> list[shapes.GroupWithOperation]:
    waits = why_groups_wait(parts.db, [each.group.group_id for each in found])
    # Never cached with the counts: what a person writes shows at once.
    comments = comments_of(parts.db, found)
    return [
        _commented(group_operation(each, waits.get(each.group.group_id)), comments)
        for each in found
    ]


G = TypeVar("G", shapes.Group, shapes.GroupWithOperation, shapes.ArchivedGroup)


def _commented(shown: G, comments: Mapping[str, shapes.GroupComment]) -> G:
    written = comments.get(shown["id"])
    if written is not None:
        shown["comment"] = written["comment"]
        shown["commented_by"] = written["commented_by"]
        shown["commented_at"] = written["commented_at"]
    return shown


def _find(parts: ApiParts, classifier: str, ids: IdRange, page: PageRequest) -> Page[GroupCount]:
    found = find_groups(parts.db, classifier, ids, page)
    acts = find_acts(parts.db, {each.group.group_id for each in found.items}, classifier)
    return replace(
        found,
        items=tuple(
            replace(each, operation=acts.retries.get(each.group.group_id)) for each in found.items
        ),
    )


def _count(parts: ApiParts, classifier: str, title: str | None) -> Sequence[GroupCount]:
    """Return counts, perhaps cached. Retries alive are never cached: a click must show at once."""
    count = partial(count_groups, parts.db, classifier, title)
    if title is not None or classifier not in CLASSIFIERS:
        return count()
    return parts.cache.get(("groups", classifier), count)


_IDLE: shapes.OperationOfGroup = {
    "operation_status": "None",
    "operation_progress": 0.0,
    "need_user_acknowledgement": False,
}

_STATUSES: Mapping[RetryOperationState, shapes.OperationStatus] = {
    RetryOperationState.PREPARING: "Preparing",
    RetryOperationState.FORWARDING: "Forwarding",
    RetryOperationState.COMPLETED: "Completed",
    RetryOperationState.CANCELLED: "Completed",
}


def group(counted: GroupCount) -> shapes.Group:
    """Show a group and its count."""
    view: shapes.Group = {
        "id": counted.group.group_id,
        "title": counted.group.title,
        "type": counted.group.classifier,
        "count": counted.count,
        "manual": counted.count - counted.scheduled - counted.dead,
        "scheduled": counted.scheduled,
        "dead": counted.dead,
        "first": time(counted.first),
        "last": time(counted.last),
        "first_seen": time(counted.first_seen),
    }
    return present(view)


def archived_group(counted: GroupCount) -> shapes.ArchivedGroup:
    """Show a group and the count of its archived messages, for which nobody decides anything."""
    view: shapes.ArchivedGroup = {
        "id": counted.group.group_id,
        "title": counted.group.title,
        "type": counted.group.classifier,
        "count": counted.count,
        "first": time(counted.first),
        "last": time(counted.last),
    }
    return present(view)


def group_operation(
    counted: GroupCount, waits_because: str | None = None
) -> shapes.GroupWithOperation:
    """Show a group and its retry or archive; `operation_status` is always there.

    One that is over is shown as such until a person acknowledges it; then only when it ended.
    """
    view: shapes.GroupWithOperation = {
        **group(counted),
        **_operation_of(counted),
        **_closed(counted),
        "waits_because": waits_because,
    }
    return present(view)


def _operation_of(counted: GroupCount) -> shapes.OperationOfGroup:
    if counted.archive is not None:
        return {**_IDLE, **archive_of_group(counted.archive)}
    retry = counted.operation
    if retry is None:
        return _IDLE
    if retry.completed_at is None:
        return {**_IDLE, **_running(retry)}
    ended = time(retry.completed_at)
    if retry.acknowledged_at is not None:
        return {**_IDLE, "operation_completion_time": ended}
    return {
        **_running(retry),
        "operation_completion_time": ended,
        "operation_failed": is_failed(retry),
        "need_user_acknowledgement": True,
    }


def _closed(counted: GroupCount) -> shapes.ClosedGroup:
    """Show, of a group that has no unresolved message left, how many its retry or archive was about.

    ServicePulse shows that number when it is over. Nothing of it failed after it was asked for.
    """
    archive, retry = counted.archive, counted.operation
    if counted.count:
        return {}
    if archive is not None:
        is_over = archive.completed_at is not None
        return {"count": archive.done, "last": time(archive.created_at)} if is_over else {}
    if retry is None or retry.completed_at is None or retry.acknowledged_at is not None:
        return {}
    return {"count": retry.forwarded, "last": time(retry.created_at)}


def _running(shown: RetryOperation) -> shapes.GroupProgress:
    is_cancelled = shown.state is RetryOperationState.CANCELLED
    done = shown.forwarded if is_cancelled else shown.total - shown.remaining
    view: shapes.GroupProgress = {
        "operation_id": shown.operation_id,
        "operation_status": _STATUSES.get(shown.state, "Waiting"),
        "operation_progress": round(done / shown.total, 2) if shown.total else 0.0,
        "operation_remaining_count": shown.remaining,
        "operation_messages_completed_count": done,
        "operation_start_time": time(shown.started_at),
    }
    return present(view)


comments_router = Routes(prefix="/api/recoverability/groups", tags=["groups"])

_NAME = b"comment="

CommentText = Annotated[str, Query(description=f"the text, at most {LONGEST:,} characters")]


@comments_router.post("/{group_id}/comment", status_code=202, response_class=Response)
def write_comment(
    request: Request, group_id: str, context: InContext, comment: CommentText
) -> Response:
    """Comment on a group, in place of an earlier comment."""
    text = _whole(request) or comment
    return _answer(context.gateway.comments.write(group_id, text, context.requested_by), group_id)


@comments_router.delete("/{group_id}/comment", status_code=202, response_class=Response)
def delete_comment(group_id: str, context: InContext) -> Response:
    """Delete the comment of a group; without a comment nothing is done."""
    return _answer(context.gateway.comments.delete(group_id, context.requested_by), group_id)


def _whole(request: Request) -> str:
    """Return all that follows `comment=`: ServicePulse does not encode `&`, `%` and `+`.

    Whoever writes blanks as `%20`, as browsers do, means a plus by `+`; else it is a blank.
    """
    query: bytes = request.scope["query_string"]
    if not query.startswith(_NAME):
        return ""
    text = query.removeprefix(_NAME).decode("latin-1")
    return unquote(text) if "%20" in text else unquote_plus(text)


def _answer(refusal: CommentRefusal | None, group_id: str) -> Response:
    match refusal:
        case None:
            return Response(status_code=202, headers=HEADERS)
        case CommentRefusal.UNKNOWN:
            return problem(404, f"No group has the id {group_id[:100]}.")
        case CommentRefusal.EMPTY | CommentRefusal.TOO_LONG:
            errors = [{"field": "query.comment", "reason": str(refusal)}]
            return problem(422, str(refusal), errors=errors)


history_router = Routes(prefix="/api/recoverability", tags=["history"])


@history_router.get("/history", name="get_retry_history")
def get_history(request: Request, parts: Parts) -> Answer[shapes.RetryHistory]:
    """List the last 10 finished retries, and those that nobody has acknowledged."""
    return answer(request, history(read_history(parts.db)))


@history_router.delete("/unacknowledgedgroups/{group_id}", status_code=200, response_class=Response)
def acknowledge_group(group_id: str, context: InContext) -> Response:
    """Acknowledge that the retry or archive of a group is over: the group shows it no longer."""
    if not context.gateway.acknowledge_group(group_id, context.requested_by):
        return problem(404, f"Nothing of the group {group_id[:100]} is to be acknowledged.")
    return Response(status_code=200, headers=HEADERS)
