"""Archive operations and archived messages: listed, shown, undone, taken back."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, HTTPException, Query, Request, Response

from retrier.archives import UndoRefusal
from retrier.domain.archive_operation import Act, ArchiveOperation, ArchiveOperationState
from retrier.domain.failed_message import FailedMessageStatus
from retrier.domain.selection import Selection, chosen_parts, describe
from retrier.domain.values import dataclass
from retrier.http.views import check_texts
from retrier.store.archive_lists import (
    ArchivePreview,
    find_archive_operation,
    find_archivers,
    find_refused,
    list_archive_operations,
)
from retrier.store.event_log import EventFilter, list_newest_events
from retrier.store.message_lists import Order, PageRequest, Sort, list_messages
from retrier.store.pending import time_before
from retrier.web.forms import Form, QuestionForm, SentForm
from retrier.web.page import IN_FULL, see_other, show
from retrier.web.pages import PAGE, PagedList, page_number
from retrier.web.parts import PageParts, Parts
from retrier.web.wording import DONE, Fact, capital, number, plural, sentence, time_facts

SHOWN_REFUSED = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveLine:
    """One archive operation; `undo` is where a form takes it back, if it archived something.

    `text` says how far it is; it replaces itself on open pages while the operation goes on.
    """

    operation_id: str
    title: str
    requested_by: str
    why: str | None
    state: str
    tone: str
    text: str
    settled: int
    total: int
    is_over: bool
    undo: str | None
    created_at: datetime


def archive_line(shown: ArchiveOperation) -> ArchiveLine:
    """Return an archive operation as a line."""
    over = shown.state is ArchiveOperationState.COMPLETED
    archived = shown.act is Act.ARCHIVE and shown.done > 0
    return ArchiveLine(
        operation_id=shown.operation_id,
        title=capital(shown.originator),
        requested_by=shown.requested_by,
        why=shown.why,
        state=shown.state.value,
        tone="good" if over and shown.done else "",
        text=_how_far(shown),
        settled=shown.done + shown.skipped,
        total=shown.total,
        is_over=over,
        undo=f"/archive_operations/{shown.operation_id}/undo" if archived else None,
        created_at=shown.created_at,
    )


def _how_far(shown: ArchiveOperation) -> str:
    words = [f"{number(shown.done)} of {plural(shown.total, 'message')} {DONE[shown.act]}"]
    if shown.skipped:
        words.append(f"{number(shown.skipped)} left as they were")
    return " · ".join(words)


def _asked(shown: ArchiveOperation, parts: PageParts) -> Iterator[Fact]:
    yield Fact(name="Asked by", value=shown.requested_by)
    if shown.why:
        yield Fact(name="Because", value=shown.why)
    if shown.undo_of is not None:
        link = f"/archive_operations/{shown.undo_of}"
        yield Fact(name="Takes back", value="what this one archived", link=link)
    elif shown.selection.ids is not None:
        yield Fact(name="Of", value=f"{plural(shown.total, 'message')} named by id")
    else:
        chosen = chosen_parts(shown.selection)
        told = parts.conditions(chosen)
        words = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in told.items())
        # Who may not read what stands in messages is not led to a list that is found by it.
        to = f"/messages?{urlencode(chosen)}" if chosen else "/messages"
        pending = "pending retries" if shown.selection.pending else "all messages"
        yield Fact(name="Of", value=words or pending, link=to if told == chosen else None)
    yield from time_facts(asked=shown.created_at)


def _progress(shown: ArchiveOperation) -> Iterator[Fact]:
    live = f"archive/{shown.operation_id}"
    yield Fact(name="Messages", value=number(shown.total))
    yield Fact(name=DONE[shown.act].capitalize(), value=number(shown.done), live=f"{live}/changed")
    yield Fact(name="Left as they were", value=number(shown.skipped), live=f"{live}/skipped")
    if shown.reason:
        yield Fact(name="State", value=sentence(shown.reason))
    yield from time_facts(
        started=shown.started_at, ended=shown.completed_at, acknowledged=shown.acknowledged_at
    )


PATH = "/archived"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedQuery:
    """The query of the list, as it stands in its address. `by` is an archive operation."""

    text: str = ""
    queue: str = ""
    group: str = ""
    by: str = ""
    page: str = ""

    @property
    def conditions(self) -> Mapping[str, str]:
        """What narrows the list."""
        found = {"text": self.text, "queue": self.queue, "group": self.group, "by": self.by}
        return {name: value for name, value in found.items() if value}

    @property
    def number(self) -> int:
        """Which page."""
        return page_number(self.page)

    def select(self) -> Selection:
        """Return what matches, in whatever status it is."""
        given = self.conditions
        return Selection(
            text=given.get("text"),
            queue=given.get("queue"),
            group=given.get("group"),
            archived_by=given.get("by"),
        )

    def select_archived(self) -> Selection:
        """Return what matches and is archived."""
        return replace(self.select(), statuses=frozenset({FailedMessageStatus.ARCHIVED}))


def unarchive_form(
    query: ArchivedQuery, found: ArchivePreview, until: Mapping[str, str]
) -> QuestionForm:
    """Return the question before everything that matches is unarchived; `until` bounds it."""
    said = ", ".join(f"{name} {value}" for name, value in query.conditions.items())
    return QuestionForm(
        title=f"Unarchive {plural(found.total, 'message')}?" if found.total else "Nothing matches",
        what=f"Archived messages that match: {said or 'all of them'}.",
        button=f"Unarchive {plural(found.total, 'message')}" if found.total else "",
        post_to=f"{PATH}/unarchive",
        back=f"{PATH}?{urlencode(query.conditions)}" if query.conditions else PATH,
        warnings=["They are unresolved again. Nothing is sent: a retry is asked for separately."],
        left_out=found.skipped_because,
        fields=[*query.conditions.items(), *until.items(), ("all", "yes")],
    )


router = APIRouter(prefix="/archive_operations")

_EVENTS = 12
"""Lines of the event log that the page of one operation shows, the newest ones."""


@router.get("")
def get_archive_operations(
    request: Request, parts: Parts, page: Annotated[str, Query()] = ""
) -> Response:
    """List the archive operations, newest first."""
    number = page_number(page)
    found = list_archive_operations(parts.db, PageRequest(number=number, size=PAGE))
    listing = PagedList(
        rows=[archive_line(each) for each in found.items],
        total=found.total,
        number=number,
        path="/archive_operations",
        values={},
    )
    return show(request, "archive_operations.html", current="/operations", listing=listing)


@router.get("/{operation_id}")
def get_archive_operation(request: Request, operation_id: str, parts: Parts) -> Response:
    """Show one archive operation."""
    found = find_archive_operation(parts.db, operation_id)
    if found is None:
        raise HTTPException(404, f"No archive operation has the id {operation_id[:100]}.")
    key = found.operation_id
    return show(
        request,
        "archive_operation.html",
        current="/operations",
        line=archive_line(found),
        asked=_asked(found, parts),
        how_far=_progress(found),
        skipped_because=found.skipped_because,
        refused=list(find_refused(parts.db, key).items())[:SHOWN_REFUSED],
        events=list_newest_events(
            parts.db, _EVENTS, EventFilter(operation_id=key, with_routine=False)
        ),
    )


@router.post("/{operation_id}/undo")
def undo(operation_id: str, parts: Parts, form: SentForm) -> Response:
    """Unarchive what is still archived by an operation."""
    words = f"undo of {operation_id[:100]}"
    match parts.gateway.archives.undo(
        operation_id, lambda still: form.archive(Act.UNARCHIVE, still, words)
    ):
        case UndoRefusal.UNKNOWN as refusal:
            raise HTTPException(404, refusal.value)
        case UndoRefusal.NO_ARCHIVE as refusal:
            raise HTTPException(409, f"It cannot be undone: {refusal.value}")
        case done:
            return see_other(form.next(f"archive:{done.operation.operation_id}"))


archived_router = APIRouter(prefix=PATH)

_LATEST = Order(sort=Sort.MODIFIED)

ArchivedFilter = Annotated[ArchivedQuery, Depends()]


@archived_router.get("")
def get_archived(request: Request, parts: Parts, query: ArchivedFilter) -> Response:
    """List what is archived, the last change first."""
    page = PageRequest(number=query.number, size=PAGE)
    found = list_messages(parts.db, query.select_archived(), _LATEST, page, parts.codec)
    listing = PagedList(
        rows=found.items,
        total=found.total,
        number=query.number,
        path=PATH,
        values=query.conditions,
    )
    return show(
        request,
        "archived.html",
        current=PATH,
        listing=listing,
        archivers=find_archivers(parts.db, [each.unique_message_id for each in found.items]),
        unarchive_all=replace(listing, path=f"{PATH}/unarchive").to(),
    )


@archived_router.get("/unarchive", dependencies=[IN_FULL])
def preview_unarchive(request: Request, parts: Parts, query: ArchivedFilter) -> Response:
    """Say how many messages would be unarchived."""
    now = time_before(parts.db, timedelta(0))
    planned = parts.gateway.archives.plan(Act.UNARCHIVE, query.select(), now)
    question = unarchive_form(query, planned.preview, {"plan": planned.plan.token})
    return show(request, "question.html", current=PATH, question=question)


@archived_router.post("/unarchive")
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
