"""Pending retries: the list, and how a person ends the wait for an outcome."""

from datetime import datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException, Query, Request, Response

from retrier.domain.archive_operation import Act
from retrier.domain.retry_operation import RetryTerms, hash_subject
from retrier.domain.selection import Selection
from retrier.store.queries.archive_previews import plan_act
from retrier.store.queries.ordering import PageRequest
from retrier.store.queries.pending import count_next_destinations, list_pending, time_before
from retrier.store.queries.recovery import list_recovering
from retrier.web.filters import check_texts
from retrier.web.forms import Form, SentForm
from retrier.web.parts import PageParts, Parts
from retrier.web.showing import see_other, show
from retrier.web.strays import IN_FULL
from retrier.web.views.pages import PAGE
from retrier.web.views.pending import AGES, PATH, PendingQuery, pending_list
from retrier.web.views.pending_acts import MOST_DESTINATIONS, Counted, Those, ask_before

router = APIRouter(prefix=PATH)

ListQuery = Annotated[PendingQuery, Depends()]

_AT_ONCE = timedelta(0)


@router.get("")
def get_pending(request: Request, parts: Parts, query: ListQuery) -> Response:
    """List the pending retries, the longest wait first."""
    page = PageRequest(number=query.number, size=PAGE)
    found = list_pending(parts.db, query.waiting, page, parts.codec)
    view = pending_list(found, query, list_recovering(parts.db))
    return show(request, "pending.html", view, current=PATH)


def _those(
    parts: Parts,
    query: ListQuery,
    ids: Annotated[list[str] | None, Query(alias="id")] = None,
    everything: Annotated[str, Query(alias="all")] = "",
) -> Those | None:
    """Return those that an address names; all of them only if it says so."""
    if ids:
        return Those(ids=tuple(ids))
    if not everything or query.waiting.operation_id is not None:
        return None
    now = time_before(parts.db, _AT_ONCE)
    return _older(query.waiting.queue, query.values.get("older", ""), now)


def _older(queue: str | None, older: str, at: datetime) -> Those:
    """Return those that were sent so long before a time."""
    sent_before = at - AGES[older] if older in AGES else None
    return Those(queue=queue, older=older, at=at, sent_before=sent_before)


Wanted = Annotated[Those | None, Depends(_those)]


@router.get("/retry", dependencies=[IN_FULL])
def preview_retry(request: Request, parts: Parts, query: ListQuery, those: Wanted) -> Response:
    """Say how many would be sent once more, to where, and what nobody knows."""
    return _ask(request, parts, Act.RELEASE, query, those)


@router.get("/resolve", dependencies=[IN_FULL])
def preview_resolve(request: Request, parts: Parts, query: ListQuery, those: Wanted) -> Response:
    """Say how many would be resolved, and what nobody knows."""
    return _ask(request, parts, Act.RESOLVE, query, those)


@router.post("/recovery/end")
def end_recovery(parts: Parts, form: SentForm) -> Response:
    """End the recovery after a restore; one that is over is over."""
    parts.gateway.end_recovery(form.requested_by)
    return see_other(f"{PATH}?done=recovery-ended")


@router.post("/retry")
def retry_again(parts: Parts, form: SentForm) -> Response:
    """Stop waiting for the outcome, and retry once more what the preview counted."""
    those = _of_form(form, Act.RELEASE)
    named = Selection(ids=those.ids or ())
    request = form.retry(named, f"retry of {those.words}", RetryTerms())
    bulk = None if those.ids else form.counted(Act.RELEASE, those.selection, those.older)
    again = parts.gateway.retry_again(request, bulk)
    return see_other(form.next_after(again, PATH))


@router.post("/resolve")
def resolve(parts: Parts, form: SentForm) -> Response:
    """Resolve by hand what the preview counted."""
    those = _of_form(form, Act.RESOLVE)
    counted = form.counted(Act.RESOLVE, those.selection, those.older)
    request = form.archive(Act.RESOLVE, counted, f"resolve of {those.words}")
    done = parts.gateway.archives.ask(request).operation
    return see_other(form.next(f"archive:{done.operation_id}", PATH))


def _ask(
    request: Request, parts: PageParts, act: Act, query: PendingQuery, those: Those | None
) -> Response:
    back = query.address
    if those is None:
        return see_other(f"{back}{'&' if '?' in back else '?'}done=nothing")
    at = those.at or time_before(parts.db, _AT_ONCE)
    planned = plan_act(parts.db, act, those.selection, at, those.older)
    counted = Counted(
        preview=planned.preview,
        plan=planned.plan.token,
        destinations=count_next_destinations(parts.db, planned.selection, MOST_DESTINATIONS)
        if act is Act.RELEASE
        else (),
    )
    return show(request, "confirm.html", ask_before(act, those, counted, back), current=PATH)


def _of_form(form: Form, act: Act) -> Those:
    """Return those that a form names, of the age that its preview meant. Raises HTTPException."""
    ids = tuple(form.values("id"))
    if ids:
        return Those(ids=ids)
    older = form.text("older")
    if not form.text("all") or (older and older not in AGES):
        raise HTTPException(400, "The form does not say which pending retries it is about.")
    queue = form.exactly("queue")
    check_texts({"queue": queue})
    those = Those(queue=queue or None, older=older)
    plan = form.plan(hash_subject(act, those.selection, older))
    return _older(those.queue, older, plan.at)
