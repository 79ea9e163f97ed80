"""Archived messages: the list, and how some or all of them are taken back."""

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from retrier.domain.archive_operation import Act
from retrier.domain.selection import Selection, describe
from retrier.store.queries.archive_previews import plan_act
from retrier.store.queries.archived import find_archivers
from retrier.store.queries.messages import list_messages
from retrier.store.queries.ordering import Order, PageRequest, Sort
from retrier.store.queries.pending import time_before
from retrier.web.filters import check_texts
from retrier.web.forms import Form, SentForm
from retrier.web.parts import Parts
from retrier.web.showing import see_other, show
from retrier.web.strays import IN_FULL
from retrier.web.views.archived import PATH, ArchivedQuery, archived_list, unarchiving
from retrier.web.views.pages import PAGE

router = APIRouter(prefix=PATH)

_LATEST = Order(sort=Sort.MODIFIED)

Query = Annotated[ArchivedQuery, Depends()]


@router.get("")
def get_archived(request: Request, parts: Parts, query: Query) -> Response:
    """List what is archived, the last change first."""
    page = PageRequest(number=query.number, size=PAGE)
    found = list_messages(parts.db, query.select_archived(), _LATEST, page, parts.codec)
    archivers = find_archivers(parts.db, [each.unique_message_id for each in found.items])
    return show(request, "archived.html", archived_list(found, archivers, query), current=PATH)


@router.get("/unarchive", dependencies=[IN_FULL])
def preview_unarchive(request: Request, parts: Parts, query: Query) -> Response:
    """Say how many messages would be unarchived."""
    now = time_before(parts.db, timedelta(0))
    planned = plan_act(parts.db, Act.UNARCHIVE, query.select(), now)
    view = unarchiving(query, planned.preview, {"plan": planned.plan.token})
    return show(request, "confirm.html", view, current=PATH)


@router.post("/unarchive")
def unarchive(parts: Parts, form: SentForm) -> Response:
    """Unarchive the messages that are named, or all that match."""
    selection = _selection(form)
    if selection is None:
        return see_other(form.next("nothing", PATH))
    counted = form.counted(Act.UNARCHIVE, selection)
    request = form.archive(Act.UNARCHIVE, counted, f"unarchive of {describe(selection)}")
    done = parts.gateway.archives.ask(request).operation
    return see_other(form.next(f"archive:{done.operation_id}", PATH))


def _selection(form: Form) -> Selection | None:
    """Return what is to be unarchived; everything only if the form says so."""
    if form.text("all"):
        names = ("text", "queue", "group", "by")
        query = ArchivedQuery(**{name: form.exactly(name) for name in names})
        check_texts(query.conditions)
        return query.select()
    ids = tuple(form.values("id"))
    return Selection(ids=ids) if ids else None
