"""Failure groups: the list, and what can be done with one: retry, archive, take note of its end."""

from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException, Request, Response

from retrier.domain.archive_operation import Act
from retrier.domain.retry_operation import RetryRequest, RetryTerms, type_of
from retrier.domain.selection import Selection
from retrier.store.queries.groups import find_title
from retrier.store.queries.queues import list_hosts
from retrier.web.forms import SentForm, local
from retrier.web.listed_groups import list_rows
from retrier.web.parts import PageParts, Parts
from retrier.web.showing import see_other, show
from retrier.web.strays import IN_FULL
from retrier.web.views.group_list import GroupQuery, HostList, group_list, read_query
from retrier.web.views.groups import NAMES, SLUGS
from retrier.web.views.previews import Asked, look_ahead

router = APIRouter(prefix="/groups")

ListQuery = Annotated[GroupQuery, Depends()]


@router.get("")
def get_groups(request: Request, parts: Parts, query: ListQuery) -> Response:
    """List the groups of a classifier."""
    found = parts.counts.look()
    wanted = read_query(query)
    view = group_list(list_rows(parts.db, found, SLUGS[wanted.by]), wanted, found.at)
    return show(request, "groups.html", view, current="/groups")


@router.get("/hosts")
def get_hosts(request: Request, parts: Parts) -> Response:
    """List the machines on which unresolved messages failed. They are no groups: see decision 0068."""
    view = HostList(names=NAMES, hosts=list_hosts(parts.db), counted_at=parts.counts.now())
    return show(request, "hosts.html", view, current="/groups")


@router.get("/{group_id}/retry", dependencies=[IN_FULL])
def preview_retry(request: Request, group_id: str, parts: Parts, back: str = "/groups") -> Response:
    """Show what a retry of the group would do, and the form that asks for it."""
    title, selection = _title(parts, group_id), Selection(group=group_id)
    previewed = RetryRequest(
        retry_type=type_of(selection), selection=selection, originator=title, requested_by=""
    )
    to_ask = Asked(
        request=previewed,
        what=title,
        post_to=f"/groups/{group_id}/retry",
        back=local(back, "/groups"),
    )
    return show(request, "retry.html", look_ahead(parts, to_ask), current="/groups")


@router.post("/{group_id}/retry")
def retry(group_id: str, parts: Parts, form: SentForm) -> Response:
    """Ask for a retry of what the preview counted."""
    title = _title(parts, group_id)
    terms = RetryTerms(rate=form.rate, drop_headers=form.drop_headers)
    request = form.retry(Selection(group=group_id), f"retry of group {title}", terms)
    made = parts.gateway.retry(form.planned(request))
    return see_other(form.next(f"retry:{made.operation_id}", "/groups"))


@router.post("/{group_id}/archive")
def archive(group_id: str, parts: Parts, form: SentForm) -> Response:
    """Archive the unresolved messages of the group."""
    title = _title(parts, group_id)
    request = form.archive(Act.ARCHIVE, Selection(group=group_id), f"archive of group {title}")
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
