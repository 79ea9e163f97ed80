"""Pending retries: the list, and how a person ends the wait for an outcome."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, HTTPException, Query, Request, Response

from retrier.domain.archive_operation import Act
from retrier.domain.failed_message import FailedMessageStatus
from retrier.domain.retry_operation import RetryTerms, hash_subject
from retrier.domain.selection import Selection
from retrier.domain.values import dataclass
from retrier.http.views import AGES, check_texts, choose
from retrier.store.archive_lists import PlannedAct
from retrier.store.message_lists import PageRequest
from retrier.store.pending import (
    Waiting,
    list_pending,
    time_before,
)
from retrier.store.recovery import list_recovering
from retrier.web.forms import Form, QuestionForm, SentForm
from retrier.web.page import IN_FULL, see_other, show
from retrier.web.pages import PAGE, PagedList, page_number
from retrier.web.parts import PageParts, Parts
from retrier.web.previews import NextWays, next_ways
from retrier.web.wording import noun, plural

PATH = "/pending"


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingQuery:
    """The query of the list, as it stands in its address."""

    queue: str = ""
    operation: str = ""
    older: str = ""
    page: str = ""

    @property
    def values(self) -> Mapping[str, str]:
        """What narrows the list. Raises WrongField."""
        older = choose(self.older, "older", AGES)
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
        """Return it as the store is asked. Raises WrongField."""
        return Waiting(
            queue=self.queue or None,
            operation_id=self.operation or None,
            for_longer_than=AGES.get(choose(self.older, "older", AGES)),
        )


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
class PendingSelection:
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


def act_form(
    act: Act,
    pending: PendingSelection,
    planned: PlannedAct,
    ways: NextWays,
    back: str,
) -> QuestionForm:
    """Return the question before an act: RELEASE is to retry again, in these `ways`."""
    plan = [] if pending.ids is not None else [("plan", planned.plan.token)]
    total, again = planned.preview.total, act is Act.RELEASE
    doubt = _TWICE if again else _LOST
    # Without the advice for the command line that may stand behind a reason.
    left_out = planned.preview.skipped_because.items()
    return QuestionForm(
        title=_title(act, total),
        what=f"This is about {pending.words}.",
        button=_button(act, total),
        post_to=f"{PATH}/{'retry' if again else 'resolve'}",
        back=back,
        warnings=[*ways.warnings, doubt] if total else [],
        notes=[_LATER] if total and pending.ids is None else [],
        destinations=ways.destinations,
        others=ways.others(total),
        left_out={reason.split(";")[0]: count for reason, count in left_out},
        fields=[*pending.fields, *plan],
    )


def _button(act: Act, total: int) -> str:
    what = plural(total, "message")
    if total == 0:
        return ""
    return (
        f"Send {what} again"
        if act is Act.RELEASE
        else f"{what} {noun(total, 'was', 'were')} handled"
    )


def _title(act: Act, total: int) -> str:
    if total == 0:
        return "Nothing of it is pending"
    what = plural(total, "message")
    if act is Act.RELEASE:
        return f"Retry {what} once more?"
    return f"Resolve {what} without a confirmation?"


router = APIRouter(prefix=PATH)

ListQuery = Annotated[PendingQuery, Depends()]

_AT_ONCE = timedelta(0)


@router.get("")
def get_pending(request: Request, parts: Parts, query: ListQuery) -> Response:
    """List the pending retries, the longest wait first."""
    page = PageRequest(number=query.number, size=PAGE)
    found = list_pending(parts.db, query.waiting, page, parts.codec)
    listing = PagedList(
        rows=found.items,
        total=found.total,
        number=query.number,
        path=PATH,
        values=query.values,
    )
    return show(
        request,
        "pending.html",
        current=PATH,
        listing=listing,
        conditions={name: each for name, each in query.values.items() if name != "older"},
        ages=AGES,
        all_of_them=listing.to(all="yes").removeprefix(PATH),
        recovering=list_recovering(parts.db),
    )


def _read_address(
    parts: Parts,
    query: ListQuery,
    ids: Annotated[list[str] | None, Query(alias="id")] = None,
    everything: Annotated[str, Query(alias="all")] = "",
) -> PendingSelection | None:
    """Return those that an address names; all of them only if it says so."""
    if ids:
        return PendingSelection(ids=tuple(ids))
    if not everything or query.waiting.operation_id is not None:
        return None
    now = time_before(parts.db, _AT_ONCE)
    return _older(query.waiting.queue, query.values.get("older", ""), now)


def _older(queue: str | None, older: str, at: datetime) -> PendingSelection:
    """Return those that were sent so long before a time."""
    sent_before = at - AGES[older] if older in AGES else None
    return PendingSelection(queue=queue, older=older, at=at, sent_before=sent_before)


InAddress = Annotated[PendingSelection | None, Depends(_read_address)]


@router.get("/retry", dependencies=[IN_FULL])
def preview_retry(request: Request, parts: Parts, query: ListQuery, pending: InAddress) -> Response:
    """Say how many would be sent once more, to where, and what nobody knows."""
    return _ask(request, parts, Act.RELEASE, query, pending)


@router.get("/resolve", dependencies=[IN_FULL])
def preview_resolve(
    request: Request, parts: Parts, query: ListQuery, pending: InAddress
) -> Response:
    """Say how many would be resolved, and what nobody knows."""
    return _ask(request, parts, Act.RESOLVE, query, pending)


@router.post("/recovery/end")
def end_recovery(parts: Parts, form: SentForm) -> Response:
    """End the recovery after a restore; one that is over is over."""
    parts.gateway.end_recovery(form.requested_by)
    return see_other(f"{PATH}?done=recovery-ended")


@router.post("/retry")
def retry_again(parts: Parts, form: SentForm) -> Response:
    """Stop waiting for the outcome, and retry once more what the preview counted."""
    pending = _read_form(form, Act.RELEASE)
    named = Selection(ids=pending.ids or ())
    request = form.retry(named, f"retry of {pending.words}", RetryTerms())
    bulk = None if pending.ids else form.counted(Act.RELEASE, pending.selection, pending.older)
    again = parts.gateway.retry_again(request, bulk)
    return see_other(form.next_after(again, PATH))


@router.post("/resolve")
def resolve(parts: Parts, form: SentForm) -> Response:
    """Resolve by hand what the preview counted."""
    pending = _read_form(form, Act.RESOLVE)
    counted = form.counted(Act.RESOLVE, pending.selection, pending.older)
    request = form.archive(Act.RESOLVE, counted, f"resolve of {pending.words}")
    done = parts.gateway.archives.ask(request).operation
    return see_other(form.next(f"archive:{done.operation_id}", PATH))


def _ask(
    request: Request,
    parts: PageParts,
    act: Act,
    query: PendingQuery,
    pending: PendingSelection | None,
) -> Response:
    back = query.address
    if pending is None:
        return see_other(f"{back}{'&' if '?' in back else '?'}done=nothing")
    at = pending.at or time_before(parts.db, _AT_ONCE)
    planned = parts.gateway.archives.plan(act, pending.selection, at, pending.older)
    ways = next_ways(parts, planned.selection) if act is Act.RELEASE else NextWays()
    question = act_form(act, pending, planned, ways, back)
    return show(request, "question.html", current=PATH, question=question)


def _read_form(form: Form, act: Act) -> PendingSelection:
    """Return those that a form names, of the age that its preview meant. Raises HTTPException."""
    ids = tuple(form.values("id"))
    if ids:
        return PendingSelection(ids=ids)
    older = form.text("older")
    if not form.text("all") or (older and older not in AGES):
        raise HTTPException(400, "The form does not say which pending retries it is about.")
    queue = form.exactly("queue")
    check_texts({"queue": queue})
    pending = PendingSelection(queue=queue or None, older=older)
    plan = form.plan(hash_subject(act, pending.selection, older))
    return _older(pending.queue, older, plan.at)
