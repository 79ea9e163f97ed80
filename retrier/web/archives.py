"""Archive operations and archived messages: listed, shown, undone, taken back."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, HTTPException, Query, Request, Response

from retrier.domain.archive_operation import Act, ArchiveOperation, ArchiveOperationState
from retrier.domain.failed_message import FailedMessageStatus
from retrier.domain.selection import Selection, chosen_parts, describe
from retrier.gateway import UndoRefusal
from retrier.store.archive_lists import (
    ArchivedBy,
    ArchivePreview,
    find_archive_operation,
    find_archivers,
    find_refused,
    list_archive_operations,
    plan_act,
)
from retrier.store.event_log import EventFilter, list_newest_events
from retrier.store.message_lists import ListedMessage, Order, Page, PageRequest, Sort, list_messages
from retrier.store.pending import time_before
from retrier.web.event_lines import EventLine, event_lines, title_of
from retrier.web.filters import check_texts
from retrier.web.forms import Confirmation, Form, SentForm
from retrier.web.page import IN_FULL, see_other, show
from retrier.web.pages import PAGE, Listing, page_number
from retrier.web.parts import Parts
from retrier.web.wording import DONE, Fact, number, plural, sentence, time_facts

SHOWN_REFUSED = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveLine:
    """One archive operation; `undo` is where a form takes it back, if it archived something."""

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
    undo_of: str | None
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveList:
    """One page of all archive operations."""

    listing: Listing[ArchiveLine]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivePage:
    """One archive operation, why it left some messages as they were, and what was logged of it."""

    line: ArchiveLine
    asked: Sequence[Fact]
    progress: Sequence[Fact]
    skipped_because: Mapping[str, int]
    refused: Sequence[tuple[str, str]]
    events: Sequence[EventLine]
    archived_link: str | None


def archive_line(shown: ArchiveOperation) -> ArchiveLine:
    """Return an archive operation as a line."""
    over = shown.state is ArchiveOperationState.COMPLETED
    archived = shown.act is Act.ARCHIVE and shown.done > 0
    return ArchiveLine(
        operation_id=shown.operation_id,
        title=shown.originator[:1].upper() + shown.originator[1:],
        requested_by=shown.requested_by,
        why=shown.why,
        state=shown.state.value,
        tone="good" if over and shown.done else "",
        text=tell_archive(shown),
        settled=shown.done + shown.skipped,
        total=shown.total,
        is_over=over,
        undo=f"/archive_operations/{shown.operation_id}/undo" if archived else None,
        undo_of=shown.undo_of,
        created_at=shown.created_at,
    )


def archive_page(
    shown: ArchiveOperation, refused: Mapping[str, str], events: Sequence[EventLine]
) -> ArchivePage:
    """Return the page of an archive operation."""
    line = archive_line(shown)
    return ArchivePage(
        line=line,
        asked=list(_asked(shown)),
        progress=list(_progress(shown)),
        skipped_because=shown.skipped_because,
        refused=list(refused.items())[:SHOWN_REFUSED],
        events=events,
        archived_link=f"/archived?by={shown.operation_id}" if line.undo else None,
    )


def tell_archive(shown: ArchiveOperation) -> str:
    """Say in a few words how far it is; the same text replaces itself while it goes on."""
    words = [f"{number(shown.done)} of {plural(shown.total, 'message')} {DONE[shown.act]}"]
    if shown.skipped:
        words.append(f"{number(shown.skipped)} left as they were")
    return " · ".join(words)


def _asked(shown: ArchiveOperation) -> Iterator[Fact]:
    yield Fact(name="Asked by", value=shown.requested_by)
    if shown.why:
        yield Fact(name="Because", value=shown.why)
    if shown.undo_of is not None:
        link = f"/archive_operations/{shown.undo_of}"
        yield Fact(name="Takes back", value="what this one archived", link=link)
    elif shown.selection.ids is not None:
        yield Fact(name="Of", value=f"{plural(shown.total, 'message')} named by id")
    else:
        parts = chosen_parts(shown.selection)
        words = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in parts.items())
        link = f"/messages?{urlencode(parts)}" if parts else "/messages"
        pending = "pending retries" if shown.selection.pending else "all messages"
        yield Fact(name="Of", value=words or pending, link=link)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A condition of the list, and the address of the list without it."""

    name: str
    value: str
    without: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedRow:
    """One message; `by` is None if nobody knows any more who archived it."""

    unique_id: str
    title: str
    sample: str | None
    queue: str
    message_type: str | None
    by: ArchivedBy | None
    changed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedList:
    """All that the list shows. `all_of_them` leads to the preview of everything that matches."""

    listing: Listing[ArchivedRow]
    query: ArchivedQuery
    tokens: Sequence[Token]
    all_of_them: str


def archived_list(
    found: Page[ListedMessage], archivers: Mapping[str, ArchivedBy], query: ArchivedQuery
) -> ArchivedList:
    """Return one page of archived messages."""
    values = dict(query.conditions)
    listing = Listing(
        rows=[_row(each, archivers.get(each.unique_message_id)) for each in found.items],
        total=found.total,
        number=query.number,
        path=PATH,
        values=values,
    )
    preview = replace(listing, path=f"{PATH}/unarchive").to()
    return ArchivedList(
        listing=listing, query=query, tokens=list(_tokens(listing)), all_of_them=preview
    )


def unarchiving(
    query: ArchivedQuery, found: ArchivePreview, until: Mapping[str, str]
) -> Confirmation:
    """Return the question before everything that matches is unarchived; `until` bounds it."""
    what = ", ".join(f"{name} {value}" for name, value in query.conditions.items())
    listing: Listing[ArchivedRow] = Listing(
        rows=(), total=0, number=1, path=PATH, values=query.conditions
    )
    return Confirmation(
        title=f"Unarchive {plural(found.total, 'message')}?" if found.total else "Nothing matches",
        lead=f"Archived messages that match: {what or 'all of them'}.",
        act=f"Unarchive {plural(found.total, 'message')}",
        post_to=f"{PATH}/unarchive",
        back=listing.to(),
        notes=["They are unresolved again. Nothing is sent: a retry is asked for separately."],
        skipped=found.skipped_because,
        fields=[*query.conditions.items(), *until.items(), ("all", "yes")],
        asks_why=True,
        is_empty=found.total == 0,
    )


def _row(each: ListedMessage, by: ArchivedBy | None) -> ArchivedRow:
    return ArchivedRow(
        unique_id=each.unique_message_id,
        title=title_of(each),
        sample=each.exception_message,
        queue=each.queue,
        message_type=each.message_type,
        by=by,
        changed_at=each.last_modified,
    )


_NAMES = {"by": "archived by operation"}


def _tokens(listing: Listing[ArchivedRow]) -> Iterator[Token]:
    for name, value in listing.values.items():
        yield Token(name=_NAMES.get(name, name), value=value, without=listing.to(**{name: ""}))


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
    listing = Listing(
        rows=[archive_line(each) for each in found.items],
        total=found.total,
        number=number,
        path="/archive_operations",
        values={},
    )
    return show(
        request, "archive_operations.html", ArchiveList(listing=listing), current="/operations"
    )


@router.get("/{operation_id}")
def get_archive_operation(request: Request, operation_id: str, parts: Parts) -> Response:
    """Show one archive operation."""
    found = find_archive_operation(parts.db, operation_id)
    if found is None:
        raise HTTPException(404, f"No archive operation has the id {operation_id[:100]}.")
    key = found.operation_id
    events = list_newest_events(parts.db, _EVENTS, EventFilter(operation_id=key))
    view = archive_page(found, find_refused(parts.db, key), event_lines(events))
    return show(request, "archive_operation.html", view, current="/operations")


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
    archivers = find_archivers(parts.db, [each.unique_message_id for each in found.items])
    return show(request, "archived.html", archived_list(found, archivers, query), current=PATH)


@archived_router.get("/unarchive", dependencies=[IN_FULL])
def preview_unarchive(request: Request, parts: Parts, query: ArchivedFilter) -> Response:
    """Say how many messages would be unarchived."""
    now = time_before(parts.db, timedelta(0))
    planned = plan_act(parts.db, Act.UNARCHIVE, query.select(), now)
    view = unarchiving(query, planned.preview, {"plan": planned.plan.token})
    return show(request, "confirm.html", current=PATH, form=view)


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
