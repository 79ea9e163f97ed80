"""Failed messages: the list, and what can be done with those selected, or with all that match."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException, Query, Request, Response

from retrier.domain.archive_operation import Act
from retrier.domain.identity import canonical
from retrier.domain.retry_operation import RetryRequest, RetryTerms, type_of
from retrier.domain.selection import Selection
from retrier.store.queries.archive_previews import plan_act
from retrier.store.queries.comments import find_comments
from retrier.store.queries.message_waits import why_listed_wait
from retrier.store.queries.messages import list_messages
from retrier.store.queries.ordering import Order, PageRequest, Sort
from retrier.store.queries.pending import time_before
from retrier.store.queries.selections import last_number
from retrier.web.filters import FilterQuery, read_address, select_all, understand
from retrier.web.forms import SentForm, local
from retrier.web.parts import PageParts, Parts
from retrier.web.selected import Selected, select, sent, title_of
from retrier.web.showing import see_other, show
from retrier.web.strays import IN_FULL
from retrier.web.views.message_list import (
    ACT_NAMES,
    DEFAULT_SORT,
    MessageList,
    ShownGroup,
    acts_on,
    row,
    status_of,
    tokens,
)
from retrier.web.views.pages import PAGE, Listing, page_number
from retrier.web.views.previews import Asked, look_ahead
from retrier.web.views.questions import LATER, Question, ask_about

router = APIRouter(prefix="/messages")

Filter = Annotated[FilterQuery, Depends(read_address)]


@router.get("")
def get_messages(
    request: Request,
    parts: Parts,
    query: Filter,
    sort: str = "",
    direction: str = "",
    page: str = "",
) -> Response:
    """List the messages that match."""
    shown, order = understand(query), _order(sort, direction)
    # Before the list is read: a failure that comes meanwhile is told as new, though it may be there.
    since = last_number(parts.db)
    wanted = PageRequest(number=page_number(page), size=PAGE)
    found = list_messages(parts.db, shown, order, wanted, parts.codec)
    waits = why_listed_wait(parts.db, found.items)
    listing = Listing(
        rows=[row(each, waits.get(each.unique_message_id)) for each in found.items],
        total=found.total,
        number=wanted.number,
        path="/messages",
        values=query.values | _values(order),
    )
    group = _group(parts, query.group)
    view = MessageList(
        listing=listing,
        query=query,
        order=order,
        tokens=list(tokens(query, shown, listing, group.title if group else None)),
        status=status_of(shown),
        since=since,
        everything=select_all(query) is not None,
        acts=acts_on(shown),
        group=group,
    )
    return show(request, "messages.html", view, current="/messages")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenQuery:
    """What was chosen in a list: an act, and all that match or some by their ids."""

    act: str = ""
    everything: Annotated[str, Query(alias="all")] = ""
    ids: Annotated[Sequence[str], Query(alias="id")] = ()
    back: str = "/messages"


@router.get("/selected", dependencies=[IN_FULL])
def ask_about_selected(
    request: Request, parts: Parts, query: Filter, chosen: Annotated[ChosenQuery, Depends()]
) -> Response:
    """Show what an act would do with what is selected, and the form that asks for it."""
    if not chosen.everything and not chosen.ids:
        return see_other("/messages?done=nothing")
    selected = select(parts, query, chosen.ids, everything=bool(chosen.everything))
    back = local(chosen.back, "/messages")
    if chosen.everything and chosen.act in ACT_NAMES.keys() - acts_on(understand(query)).keys():
        raise HTTPException(400, UNFIT.format(ACT_NAMES[chosen.act]))
    match chosen.act:
        case "retry":
            view = look_ahead(parts, _to_retry(selected, back))
            return show(request, "retry.html", view, current="/messages")
        case "archive" | "unarchive" | "resolve":
            question = _question(parts, Act(chosen.act), selected, back)
        case "again":
            question = _ask_again(parts, selected, back)
        case _:
            raise HTTPException(400, f"Nothing is called {chosen.act[:100]} here.")
    return show(request, "question.html", question, current="/messages")


@router.post("/retry")
def retry(parts: Parts, form: SentForm) -> Response:
    """Ask for a retry of what the preview counted."""
    selected = sent(parts, form)
    terms = RetryTerms(rate=form.rate, drop_headers=form.drop_headers)
    request = form.retry(selected.selection, f"retry of {selected.words}", terms)
    made = parts.gateway.retry(form.planned(request))
    return see_other(form.next(f"retry:{made.operation_id}", "/messages"))


@router.post("/again")
def retry_again(parts: Parts, form: SentForm) -> Response:
    """Stop waiting for the outcome of retries, and send the messages back once more."""
    selected = sent(parts, form)
    chosen = selected.selection
    named = chosen if chosen.ids is not None else Selection(ids=())
    request = form.retry(named, f"retry of {selected.words} again", RetryTerms())
    bulk = None if chosen.ids is not None else form.counted(Act.RELEASE, chosen)
    made = parts.gateway.retry_again(request, bulk)
    done = f"retry:{made.operation_ids[0]}" if made.operation_ids else "unchanged"
    return see_other(form.next(done, "/messages"))


@router.post("/{act}", name="act_on_selected")
def act_on_selected(act: Act, parts: Parts, form: SentForm) -> Response:
    """Archive, unarchive or resolve what the preview counted."""
    if act is Act.RELEASE:
        raise HTTPException(404, "No page has this address.")
    selected = sent(parts, form)
    counted = form.counted(act, selected.selection)
    request = form.archive(act, counted, f"{act} of {selected.words}")
    done = parts.gateway.archives.ask(request).operation
    return see_other(form.next(f"archive:{done.operation_id}", "/messages"))


def _to_retry(selected: Selected, back: str) -> Asked:
    request = RetryRequest(
        retry_type=type_of(selected.selection),
        selection=selected.selection,
        originator=selected.words,
        requested_by="",
    )
    return Asked(
        request=request,
        what=selected.words,
        post_to="/messages/retry",
        back=back,
        fields=selected.fields,
    )


def _group(parts: PageParts, group: str) -> ShownGroup | None:
    title = title_of(parts, group)
    if title is None:
        return None
    key = canonical(group)
    comment = find_comments(parts.db, [key]).get(key)
    return ShownGroup(group_id=key, title=title, comment=comment)


def _question(parts: PageParts, act: Act, selected: Selected, back: str) -> Question:
    planned = plan_act(parts.db, act, selected.selection, time_before(parts.db, timedelta(0)))
    base = Question(
        title="",
        what="",
        post_to=f"/messages/{act}",
        back=back,
        button="",
        notes=() if selected.selection.ids is not None else (LATER,),
        fields={**selected.fields, "plan": planned.plan.token},
    )
    return ask_about(act, selected.words, planned.preview, base)


def _ask_again(parts: PageParts, selected: Selected, back: str) -> Question:
    chosen, at = selected.selection, time_before(parts.db, timedelta(0))
    planned = plan_act(parts.db, Act.RELEASE, chosen, at)
    count = len(chosen.ids) if chosen.ids is not None else planned.preview.total
    words = "1 message" if count == 1 else f"{count:,} messages"
    return Question(
        title=f"Retry {words} again?",
        what=selected.words,
        post_to="/messages/again",
        back=back,
        button=f"Retry {words} again",
        text=AGAIN,
        fields={**selected.fields, "plan": planned.plan.token},
    )


UNFIT = "{} is no act for the messages that this list shows. Choose another status."

AGAIN = (
    "Their retries were sent, and neither succeeded nor failed yet. If one of them is still being "
    "handled, its message will be handled twice."
)


def _order(sort: str, direction: str) -> Order:
    known = Sort(sort) if sort in list(Sort) else DEFAULT_SORT
    return Order(sort=known, descending=direction != "asc")


def _values(order: Order) -> dict[str, str]:
    return {
        "sort": "" if order.sort is DEFAULT_SORT else order.sort.value,
        "direction": "" if order.descending else "asc",
    }
