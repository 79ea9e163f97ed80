"""Pending retries: the list, and how a person ends the wait for an outcome."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, HTTPException, Query, Request, Response

from retrier.domain.archive_operation import Act
from retrier.domain.failed_message import FailedMessageStatus
from retrier.domain.retry_operation import RetryTerms, hash_subject
from retrier.domain.selection import Selection
from retrier.store.archive_lists import ArchivePreview, plan_act
from retrier.store.message_lists import Page, PageRequest
from retrier.store.pending import (
    PendingRetry,
    Waiting,
    count_next_destinations,
    list_pending,
    time_before,
)
from retrier.store.recovery import Recovering, list_recovering
from retrier.web.archives import Token
from retrier.web.event_lines import title_of
from retrier.web.filters import check_texts
from retrier.web.forms import Confirmation, Form, Line, SentForm
from retrier.web.page import IN_FULL, see_other, show
from retrier.web.pages import PAGE, Listing, page_number
from retrier.web.parts import PageParts, Parts
from retrier.web.wording import duration, noun, plural

PATH = "/pending"

AGES: Mapping[str, timedelta] = {
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(days=7),
}
"""How old a retry is at least, as it stands in addresses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingQuery:
    """The query of the list, as it stands in its address."""

    queue: str = ""
    operation: str = ""
    older: str = ""
    page: str = ""

    @property
    def values(self) -> Mapping[str, str]:
        """What narrows the list."""
        older = self.older if self.older in AGES else ""
        found = {"queue": self.queue, "operation": self.operation, "older": older}
        return {name: value for name, value in found.items() if value}

    @property
    def number(self) -> int:
        """Which page."""
        return page_number(self.page)

    @property
    def address(self) -> str:
        """The address of the list, on its first page."""
        return f"{PATH}?{urlencode(self.values)}" if self.values else PATH

    @property
    def waiting(self) -> Waiting:
        """Return it as the store is asked."""
        return Waiting(
            queue=self.queue or None,
            operation_id=self.operation or None,
            for_longer_than=AGES.get(self.older),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingRow:
    """One pending retry."""

    unique_id: str
    title: str
    sample: str | None
    queue: str
    sent_to: str
    sent_at: datetime | None
    waits: str
    operation_id: str
    retry_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryNote:
    """A recovery after a restore: nothing is presumed, and so many retries were on their way."""

    since: datetime
    sent_from: datetime
    begun_by: str
    sent: int
    sent_again: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingList:
    """All that the list shows. `ages` has the name and the address of each choice."""

    listing: Listing[PendingRow]
    tokens: Sequence[Token]
    ages: Sequence[tuple[str, str, bool]]
    may_take_all: bool
    retry_all: str
    resolve_all: str
    recovery: RecoveryNote | None = None


def pending_list(
    found: Page[PendingRetry], query: PendingQuery, recovering: Recovering | None = None
) -> PendingList:
    """Return one page of pending retries."""
    listing = Listing(
        rows=[_row(each) for each in found.items],
        total=found.total,
        number=query.number,
        path=PATH,
        values=query.values,
    )
    all_of_them = listing.to(all="yes").removeprefix(PATH)
    return PendingList(
        listing=listing,
        tokens=list(_tokens(listing)),
        ages=list(_ages(listing, query)),
        may_take_all=not query.operation,
        retry_all=f"{PATH}/retry{all_of_them}",
        resolve_all=f"{PATH}/resolve{all_of_them}",
        recovery=None if recovering is None else _note(recovering),
    )


def _note(recovering: Recovering) -> RecoveryNote:
    recovery, queues = recovering.recovery, recovering.queues
    return RecoveryNote(
        since=recovery.since,
        sent_from=recovery.sent_from,
        begun_by=recovery.begun_by,
        sent=sum(each.sent for each in queues),
        sent_again=sum(each.in_doubt + each.not_sent for each in queues),
    )


def _row(each: PendingRetry) -> PendingRow:
    message, claim = each.message, each.claim
    return PendingRow(
        unique_id=message.unique_message_id,
        title=title_of(message),
        sample=message.exception_message,
        queue=message.queue,
        sent_to=each.sent_to,
        sent_at=claim.forwarded_at,
        waits=duration(each.waits),
        operation_id=claim.operation_id,
        retry_id=claim.retry_id,
    )


def _ages(listing: Listing[PendingRow], query: PendingQuery) -> Iterator[tuple[str, str, bool]]:
    yield "any age", listing.to(older=""), query.older not in AGES
    for name in AGES:
        yield (
            f"over a{'n' if name == 'hour' else ''} {name}",
            listing.to(older=name),
            (query.older == name),
        )


def _tokens(listing: Listing[PendingRow]) -> Iterator[Token]:
    for name, value in listing.values.items():
        if name != "older":
            yield Token(name=name, value=value, without=listing.to(**{name: ""}))


MOST_DESTINATIONS = 10

_TWICE = (
    "The consumer may have handled the first retry already, and only told nobody. If it does not "
    "drop what it has handled (by the header Retrier.RetryId, or by its own means), these messages "
    "are handled twice."
)
_LOST = (
    "Retrier does not know whether they were handled: you say so. If one was not, it is not sent "
    "again by itself. A failure that comes later makes its message unresolved again."
)
_LATER = "What is sent after this preview is not part of it."


@dataclass(frozen=True, slots=True, kw_only=True)
class Those:
    """Pending retries: named ones, or those of a queue that were sent by a time.

    The time is counted from that of the preview: what has become old enough since is left out.
    """

    ids: tuple[str, ...] | None = None
    queue: str | None = None
    older: str = ""
    at: datetime | None = None
    sent_before: datetime | None = None

    @property
    def words(self) -> str:
        """What they are; the same for the same form, because its key is bound to it."""
        if self.ids is not None:
            count = len(self.ids)
            return f"{count} pending {noun(count, 'retry', 'retries')}"
        of_queue = "" if self.queue is None else f" of queue {self.queue}"
        older = f" sent more than one {self.older} ago" if self.older else ""
        return f"the pending retries{of_queue}{older}"

    @property
    def selection(self) -> Selection:
        """Return them as a selection."""
        if self.ids is not None:
            return Selection(ids=self.ids)
        return Selection(
            queue=self.queue,
            statuses=frozenset({FailedMessageStatus.RETRY_ISSUED}),
            pending=True,
            sent_before=self.sent_before,
        )

    @property
    def fields(self) -> Sequence[tuple[str, str]]:
        """Return the hidden fields that name them."""
        if self.ids is not None:
            return [("id", each) for each in self.ids]
        given = {
            "all": "yes",
            "queue": self.queue or "",
            "older": self.older,
        }
        return [(name, value) for name, value in given.items() if value]


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What an act would do: how many it would change, and to which queues retries would go.

    `plan` holds the act to that.
    """

    preview: ArchivePreview
    plan: str
    destinations: Sequence[tuple[str, int]] = field(default_factory=tuple)


def ask_before(act: Act, those: Those, counted: Counted, back: str) -> Confirmation:
    """Return the question before an act: RELEASE is to retry again."""
    plan = [] if those.ids is not None else [("plan", counted.plan)]
    total = counted.preview.total
    again = act is Act.RELEASE
    what = plural(total, "message")
    shown = sum(count for _, count in counted.destinations)
    return Confirmation(
        title=_title(act, total),
        lead=f"This is about {those.words}.",
        act=f"Send {what} again" if again else f"{what} {_were(total)} handled",
        post_to=f"{PATH}/{'retry' if again else 'resolve'}",
        back=back,
        notes=_notes(act, those),
        destinations=[Line(name=name, count=count) for name, count in counted.destinations],
        others=max(0, total - shown) if again else 0,
        skipped=_in_words(counted.preview.skipped_because),
        fields=[*those.fields, *plan],
        asks_why=True,
        is_empty=total == 0,
    )


def _title(act: Act, total: int) -> str:
    if total == 0:
        return "Nothing of it is pending"
    what = plural(total, "message")
    if act is Act.RELEASE:
        return f"Retry {what} once more?"
    return f"Resolve {what} without a confirmation?"


def _were(total: int) -> str:
    return "was" if total == 1 else "were"


def _notes(act: Act, those: Those) -> Sequence[str]:
    doubt = _TWICE if act is Act.RELEASE else _LOST
    return [doubt] if those.ids is not None else [doubt, _LATER]


def _in_words(because: Mapping[str, int]) -> Mapping[str, int]:
    """Leave out the advice for the command line behind a reason."""
    return {reason.split(";")[0]: count for reason, count in because.items()}


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
    return show(request, "confirm.html", current=PATH, form=ask_before(act, those, counted, back))


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
