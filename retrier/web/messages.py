"""Failed messages: the list, and what can be done with those selected, or with all that match."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException, Query, Request, Response

from retrier.domain.archive_operation import Act
from retrier.domain.failed_message import FailedMessageStatus
from retrier.domain.fields import PREFIX
from retrier.domain.identity import canonical
from retrier.domain.outcomes import OUTCOME_WORDS
from retrier.domain.retry_operation import RetryTerms
from retrier.domain.selection import Selection
from retrier.domain.values import dataclass
from retrier.http.filters import FilterQuery
from retrier.http.views import ANY_STATUS, DIRECTIONS, choose, read_columns, understand
from retrier.store.comments import find_comments
from retrier.store.fields import find_fields
from retrier.store.message_details import find_beginnings
from retrier.store.message_lists import ListedMessage, Order, PageRequest, Sort, list_messages
from retrier.store.pending import time_before
from retrier.store.selections import last_number
from retrier.store.wait_reasons import why_listed_wait
from retrier.web.bodies import LOOKED_AT, excerpt
from retrier.web.filters import (
    Selected,
    group_title,
    only_status,
    read_address,
    read_selected,
    select,
    select_all,
)
from retrier.web.forms import QuestionForm, SentForm, local
from retrier.web.page import IN_FULL, see_other, show
from retrier.web.pages import PAGE, PagedList, page_number
from retrier.web.parts import PageParts, Parts
from retrier.web.previews import ask_before, next_ways, show_preview
from retrier.web.wording import ACTS, DISPOSITIONS, STATUSES, capital, noun, plural

DEFAULT_SORT = Sort.TIME_OF_FAILURE
_DIGITS = 18

STATUS_NAMES: Mapping[str, str] = {
    **{status: word for status, (word, _) in STATUSES.items()},
    ANY_STATUS: "all",
}
DISPOSITION_NAMES: Mapping[str, str] = {
    **{disposition: word for disposition, (word, _) in DISPOSITIONS.items()},
    "any": "dead or not",
}
SORT_NAMES: Mapping[str, str] = {
    Sort.TIME_OF_FAILURE: "last failure",
    Sort.TIME_SENT: "time sent",
    Sort.MODIFIED: "last change",
    Sort.MESSAGE_TYPE: "message type",
    Sort.MESSAGE_ID: "message id",
    Sort.STATUS: "status",
}
_TOKENS: Mapping[str, str] = {
    "text": "text",
    "words": "words",
    "group": "group",
    "queue": "queue",
    "endpoint": "endpoint",
    "message_type": "type",
    "exception_type": "exception",
    "reason": "reason",
    "stream": "stream",
    "host": "host",
    "process": "process",
    "node": "node",
    "message_id": "message id",
    "failed_from": "failed from",
    "failed_to": "failed until",
    "attempts_at_least": "failed at least",
    "disposition": "next",
    "archived_by": "archived by operation",
    "operation": "retried by operation",
    "outcome": "outcome",
}
_ACTS: Mapping[FailedMessageStatus | None, tuple[str, ...]] = {
    FailedMessageStatus.UNRESOLVED: ("retry", "archive", "resolve"),
    FailedMessageStatus.RETRY_ISSUED: ("again", "resolve"),
    FailedMessageStatus.ARCHIVED: ("unarchive",),
    FailedMessageStatus.RESOLVED: (),
    None: ("retry", "archive", "resolve"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """One condition, readable; `moment` is its value if that is a time."""

    name: str
    value: str
    without: str
    moment: datetime | None = None


def status_of(shown: Selection) -> str:
    """Return the status that a list shows; empty if it shows some, and not all."""
    if shown.statuses is None:
        return ANY_STATUS
    return only_status(shown) or ""


def acts_on(shown: Selection) -> Mapping[str, str]:
    """Return what can be done with the messages of a list."""
    return {act: ACTS[act] for act in _ACTS[only_status(shown)]}


def tokens(
    query: FilterQuery, shown: Selection, listing: PagedList[ListedMessage], title: str | None
) -> Iterator[Token]:
    """Return the conditions without the status; `title` is that of the group."""
    named = {
        "group": title or query.group,
        "disposition": DISPOSITION_NAMES.get(query.disposition),
        "operation": query.operation[:8],
        "outcome": None if shown.outcome is None else OUTCOME_WORDS[shown.outcome],
    }
    times = {"failed_from": shown.failed_from, "failed_to": shown.failed_to}
    for field, value in query.fields:
        yield Token(name=field, value=value, without=listing.to(**{f"{PREFIX}{field}": ""}))
    for name, words in _TOKENS.items():
        if name in query.values:
            value = named.get(name) or query.values[name]
            yield Token(
                name=words,
                value=_times(value) if name == "attempts_at_least" else value,
                # An outcome is that of an operation's retries: it goes with the operation.
                without=listing.to(**{name: ""} | ({"outcome": ""} if name == "operation" else {})),
                moment=times.get(name),
            )


def _times(count: str) -> str:
    return f"{count} {noun(int(count[:_DIGITS]), 'time')}"


router = APIRouter(prefix="/messages")

Filter = Annotated[FilterQuery, Depends(read_address)]


@router.get("")
def get_messages(
    request: Request,
    parts: Parts,
    query: Filter,
    sort: str = "",
    direction: str = "",
    columns: str = "",
    page: str = "",
) -> Response:
    """List the messages that match."""
    selection, order = understand(query), _order(sort, direction)
    known = parts.field_names if parts.shows_content else ()
    names = read_columns(columns, known)
    # Before the list is read: a failure that comes meanwhile counts as new, though it may be there.
    since = last_number(parts.db)
    wanted = PageRequest(number=page_number(page), size=PAGE)
    found = list_messages(parts.db, selection, order, wanted, parts.codec)
    listing = PagedList(
        rows=found.items,
        total=found.total,
        number=wanted.number,
        path="/messages",
        values=query.values | _values(order) | {"columns": ",".join(names)},
    )
    shown = [each.unique_message_id for each in found.items]
    beginnings = find_beginnings(parts.db, shown, LOOKED_AT) if parts.shows_content else {}
    fields = find_fields(parts.db, shown) if names else {}
    title, group_id = group_title(parts, query.group), canonical(query.group)
    comments = {} if title is None else find_comments(parts.db, [group_id])
    return show(
        request,
        "messages.html",
        current="/messages",
        listing=listing,
        query=query,
        order=order,
        tokens=list(tokens(query, selection, listing, title)),
        shown_status=status_of(selection),
        since=since,
        waits=why_listed_wait(parts.db, found.items),
        excerpts={key: excerpt(body) for key, body in beginnings.items()},
        field_names=known,
        finds_words=parts.finds_words,
        columns=names,
        fields=fields,
        may_select_all=select_all(query) is not None,
        acts=acts_on(selection),
        group_id=group_id,
        group_title=title,
        comment=comments.get(group_id),
        status_names=STATUS_NAMES,
        disposition_names=DISPOSITION_NAMES,
        sort_names=SORT_NAMES,
    )


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
    selected = replace(selected, words=capital(selected.words))
    back = local(chosen.back, "/messages")
    if chosen.everything and chosen.act in ACTS.keys() - acts_on(understand(query)).keys():
        raise HTTPException(400, UNFIT.format(ACTS[chosen.act]))
    match chosen.act:
        case "retry":
            return show_preview(
                request,
                selected.selection,
                what=selected.words,
                post_to="/messages/retry",
                back=back,
                fields=selected.fields,
            )
        case "archive" | "unarchive" | "resolve":
            question = ask_before(parts, Act(chosen.act), selected, back)
        case "again":
            question = _ask_again(parts, selected, back)
        case _:
            raise HTTPException(400, f"Nothing is called {chosen.act[:100]} here.")
    return show(request, "question.html", current="/messages", question=question)


@router.post("/retry")
def retry(request: Request, parts: Parts, form: SentForm) -> Response:
    """Ask for a retry of what the preview counted; or try a patch out that is new."""
    selected = read_selected(parts, form)
    asked = form.retry(selected.selection, f"retry of {selected.told}", form.terms(parts))
    if form.is_untried(asked):
        return show_preview(
            request,
            selected.selection,
            what=capital(selected.words),
            post_to="/messages/retry",
            back=form.back("/messages"),
            fields=selected.fields,
            tried=form,
        )
    made = parts.gateway.retry(form.planned(asked))
    return see_other(form.next(f"retry:{made.operation_id}", "/messages"))


@router.post("/again")
def retry_again(parts: Parts, form: SentForm) -> Response:
    """Stop waiting for the outcome of retries, and send the messages back once more."""
    selected = read_selected(parts, form)
    chosen = selected.selection
    named = chosen if chosen.ids is not None else Selection(ids=())
    request = form.retry(named, f"retry of {selected.told} again", RetryTerms())
    bulk = None if chosen.ids is not None else form.counted(Act.RELEASE, chosen)
    made = parts.gateway.retry_again(request, bulk)
    done = f"retry:{made.operation_ids[0]}" if made.operation_ids else "unchanged"
    return see_other(form.next(done, "/messages"))


@router.post("/{act}", name="act_on_selected")
def act_on_selected(act: Act, parts: Parts, form: SentForm) -> Response:
    """Archive, unarchive or resolve what the preview counted."""
    if act is Act.RELEASE:
        raise HTTPException(404, "No page has this address.")
    selected = read_selected(parts, form)
    counted = form.counted(act, selected.selection)
    request = form.archive(act, counted, f"{act} of {selected.told}")
    done = parts.gateway.archives.ask(request).operation
    return see_other(form.next(f"archive:{done.operation_id}", "/messages"))


def _ask_again(parts: PageParts, selected: Selected, back: str) -> QuestionForm:
    chosen, at = selected.selection, time_before(parts.db, timedelta(0))
    planned = parts.gateway.archives.plan(Act.RELEASE, chosen, at)
    count = len(chosen.ids) if chosen.ids is not None else planned.preview.total
    words = plural(count, "message")
    ways = next_ways(parts, planned.selection)
    return QuestionForm(
        title=f"Retry {words} again?",
        what=selected.words,
        post_to="/messages/again",
        back=back,
        button=f"Retry {words} again",
        text=WITHOUT_OUTCOME,
        destinations=ways.destinations,
        others=ways.others(count),
        warnings=ways.warnings,
        fields=[*selected.fields.items(), ("plan", planned.plan.token)],
    )


UNFIT = "{} is no act for the messages that this list shows. Choose another status."

WITHOUT_OUTCOME = (
    "Their retries were sent, and neither succeeded nor failed yet. If one of them is still being "
    "handled, its message will be handled twice."
)


def _order(sort: str, direction: str) -> Order:
    known = Sort(choose(sort, "sort", list(Sort)) or DEFAULT_SORT)
    return Order(sort=known, descending=choose(direction, "direction", DIRECTIONS) != "asc")


def _values(order: Order) -> dict[str, str]:
    return {
        "sort": "" if order.sort is DEFAULT_SORT else order.sort.value,
        "direction": "" if order.descending else "asc",
    }
