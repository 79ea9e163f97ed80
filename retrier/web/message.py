"""One message: why it is in its state, what failed, what changed, and what can be done with it."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from difflib import unified_diff
from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException, Request, Response

from retrier.domain.archive_operation import (
    Act,
    ActRefusal,
    ClaimStage,
    why_not,
    why_not_declare_dead,
    why_not_revive,
)
from retrier.domain.classifiers import CLASSIFIERS
from retrier.domain.decision import AGAIN
from retrier.domain.dialects.dialect import LOST_NEXT
from retrier.domain.edits import EditState, ShownEdit
from retrier.domain.failed_message import Disposition, FailedMessageStatus, Resolution
from retrier.domain.identity import canonical
from retrier.domain.retry_operation import RetryRequest
from retrier.domain.selection import Selection
from retrier.domain.values import dataclass
from retrier.domain.wait_reasons import Holding
from retrier.domain.wire import packed_as
from retrier.http.views import choose
from retrier.policy.reasons import BUILT_IN, find_named, why_not_a_reason
from retrier.store.attempts import ShownAttempt
from retrier.store.fields import find_fields
from retrier.store.imports import find_send
from retrier.store.message_details import (
    MessageDetails,
    find_beginning,
    find_body,
    find_edited_body,
    find_listed,
    find_marks,
    find_message,
)
from retrier.store.message_history import HistoryLine, find_history, put_into_words
from retrier.store.message_lists import ListedMessage, Page, PageRequest, ShownClaim
from retrier.store.streams import find_place
from retrier.store.wait_reasons import find_waits
from retrier.web.bodies import (
    EXTENSIONS,
    FORMS,
    SHOWN,
    BodyKind,
    bytes_after,
    hide_body,
    show_body,
    show_bytes,
)
from retrier.web.forms import Form, QuestionForm, SentForm, local
from retrier.web.messages import WITHOUT_OUTCOME
from retrier.web.page import HEADERS, see_other, show
from retrier.web.pages import PagedList, page_number
from retrier.web.parts import PageParts, Parts
from retrier.web.previews import next_ways, show_preview
from retrier.web.streams import link_of_place
from retrier.web.wording import DISPOSITIONS, STATUSES, first_line, number, sentence

Sentence = Sequence[str | datetime]


def state_of(found: MessageDetails, *, waits: bool) -> Sentence:
    """Return why the message is as it is, and what happens next.

    Why one `waits`, for a breaker, in its stream or for another reason, is shown beside.
    """
    message, claim = found.message, found.claim
    match message.status:
        case FailedMessageStatus.RETRY_ISSUED:
            return _of_retry(claim, found.sent_to)
        case FailedMessageStatus.RESOLVED:
            return _of_resolved(message.resolution, found.resolved_at or message.last_modified)
        case FailedMessageStatus.ARCHIVED:
            return ("It was archived at ", message.last_modified, ": no retry takes it.")
        case _ if claim is not None:
            return (f"{_failed(message)}; a retry has claimed it, and is about to be sent.",)
        case _:
            return _of_unresolved(message, waits=waits)


def badge_of(message: ListedMessage) -> tuple[str, str]:
    """Return the state in one word, and its tone."""
    unresolved = message.status is FailedMessageStatus.UNRESOLVED
    if unresolved and message.disposition is not Disposition.MANUAL:
        return DISPOSITIONS[message.disposition]
    return STATUSES[message.status]


def _of_unresolved(message: ListedMessage, *, waits: bool) -> Sentence:
    why = message.disposition_reason
    reason = sentence(why) if why else ""
    match message.disposition:
        case Disposition.SCHEDULED if message.retry_at is not None:
            # The time may have passed of one that waits.
            when = "It is due to be tried again at " if waits else "It will be tried again at "
            return (when, message.retry_at, f": {reason}" if reason else ".")
        case Disposition.DEAD:
            since = f": {reason}" if reason else "."
            if why is not None and why.endswith(AGAIN):
                # It was changed by its newest failure, and nobody knows any more when it died.
                return (f"Dead{since}", _ONLY_A_PERSON)
            return ("Dead since ", message.last_modified, since, _ONLY_A_PERSON)
        case _:
            ended = f": {reason} " if reason else ". "
            rest = ended.rstrip() if waits else f"{ended}It waits for a person."
            return (f"{_failed(message)}, last at ", message.last_failure, rest)


_ONLY_A_PERSON = " Only a person's retry takes it."


def _failed(message: ListedMessage) -> str:
    times = "once" if message.attempts == 1 else f"{number(message.attempts)} times"
    return f"It failed {times}"


def _of_retry(claim: ShownClaim | None, sent_to: str | None) -> Sentence:
    if claim is None or claim.sending_since is None:
        return ("Its retry was issued, and is about to be sent.",)
    to = f" to {sent_to}" if sent_to else ""
    if claim.forwarded_at is None:
        return (
            f"Its retry is being sent{to} since ",
            claim.sending_since,
            ", and nobody knows yet whether the broker has it.",
        )
    return (
        f"Its retry was sent{to} at ",
        claim.forwarded_at,
        " and neither succeeded nor failed yet.",
    )


def _of_resolved(resolution: Resolution | None, at: datetime) -> Sentence:
    match resolution:
        case Resolution.CONFIRMED:
            return ("It is resolved: a consumer confirmed at ", at, " that it was handled.")
        case Resolution.EDITED:
            return ("It is resolved since ", at, ": an edited version of it was sent.")
        case Resolution.PRESUMED:
            return ("It is resolved since ", at, ": its retry was sent long ago, and is not back.")
        case _:
            return ("A person resolved it at ", at, ".")


_MOST_LINES = 400
"""Lines of a stack trace that are compared: the rest would take long."""
_MOST_SHOWN = 2000
"""Characters of a text that are shown beside another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two failures of a message, by their numbers, and what they have in common and what not.

    `facts` have their name, and its values before and after. `trace` has the lines of the stack
    traces, each with its mark: `ins`, `del`, or nothing if it is the same in both.
    """

    before: int
    after: int
    times: tuple[datetime, datetime]
    facts: Sequence[tuple[str, str | None, str | None]]
    trace: Sequence[tuple[str, str]]
    has_trace: bool


def time_of(failed: ShownAttempt) -> datetime:
    """Return when it failed, or at least when that was seen."""
    return failed.time_of_failure or failed.received_at


def _facts(
    before: ShownAttempt, after: ShownAttempt
) -> Iterator[tuple[str, str | None, str | None]]:
    for name, words in _FIELDS.items():
        one, other = _text(getattr(before, name)), _text(getattr(after, name))
        if one is not None or other is not None:
            yield words, one, other


_FIELDS = {
    "exception_type": "Exception",
    "exception_message": "Says",
    "failure_reason": "Reason given",
    "reason": "Classified as",
    "queue": "Queue",
    "endpoint": "Endpoint",
    "host": "Host",
    "process": "Process",
    "node": "Node",
    "message_type": "Message type",
    "disposition": "Decided",
    "disposition_reason": "Because",
    "policy": "Policy",
    "error_queue": "Error queue",
}


def _text(value: object) -> str | None:
    return None if value is None else str(value)[:_MOST_SHOWN]


def _trace(before: str, after: str) -> Iterator[tuple[str, str]]:
    one, other = (text.splitlines()[:_MOST_LINES] for text in (before, after))
    lines = unified_diff(one, other, n=1, lineterm="")
    for line in list(lines)[2:]:
        mark = {"+": "ins", "-": "del"}.get(line[:1], "")
        yield mark, "…" if line.startswith("@@") else line[1:]


MOST_HEADERS = 200
LINES = 30
"""Lines of the history on one page."""
LONGEST_VALUE = 4000
"""Characters of one text on a page at most."""
_BAD_LINES = {"failed", "retry_failed", "message_dead", "retry_returned", "edited_version_failed"}
_GOOD_LINES = {"confirmed", "resolved", "message_resolved", "edit_sent"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownHistoryLine:
    """One thing that happened to a message, as it is shown."""

    at: datetime
    text: str
    who: str | None
    why: str | None
    operation_id: str | None
    failed_at: datetime | None
    tone: str


def _history_line(line: HistoryLine) -> ShownHistoryLine:
    kind, text = put_into_words(line)
    logged, request = line.event, line.request
    return ShownHistoryLine(
        at=line.at,
        text=text[:LONGEST_VALUE],
        who=logged.who if logged else request.requested_by if request else None,
        why=request.why if request else None,
        operation_id=line.operation_id,
        failed_at=line.failed_earlier,
        tone="bad" if kind in _BAD_LINES else "good" if kind in _GOOD_LINES else "",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRow:
    """One failure in the list of all, with its number."""

    number: int
    at: datetime
    title: str
    decided: str | None
    host: str | None
    is_compared: bool
    compare: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageQuery:
    """What an address says of the page of a message."""

    body: str = ""
    compare: str = ""
    history: str = ""

    @property
    def number(self) -> int:
        """The page of the history."""
        return page_number(self.history, "history")

    @property
    def values(self) -> dict[str, str]:
        """The same by name."""
        return {"body": self.body, "compare": self.compare, "history": self.history}


def stage_of(claim: ShownClaim | None) -> ClaimStage:
    """Return how far the retry of a message is."""
    if claim is None:
        return ClaimStage.NONE
    if claim.forwarded_at is not None:
        return ClaimStage.SENT
    return ClaimStage.CLAIMED if claim.sending_since is None else ClaimStage.BEING_SENT


def _allowed(found: MessageDetails) -> Iterator[str]:
    """Yield what may be done; the gateway decides again when it is asked for."""
    message, stage = found.message, stage_of(found.claim)
    status, disposition = message.status, message.disposition
    is_dead = why_not_revive(status, disposition, stage) is None
    if status is FailedMessageStatus.UNRESOLVED and stage is ClaimStage.NONE:
        yield "edit"
    if is_dead:
        yield "revive"
    elif status is FailedMessageStatus.UNRESOLVED and stage is ClaimStage.NONE:
        yield "retry"
    if why_not(Act.RELEASE, status, stage) is None:
        yield "again"
    yield from (act for act in _PLAIN if why_not(act, status, stage) is None)
    if why_not_declare_dead(status, disposition, stage) is None:
        yield "dead"


_PLAIN = (Act.ARCHIVE, Act.UNARCHIVE, Act.RESOLVE)


def _first_number(found: MessageDetails) -> int:
    """Return the number of the oldest failure that is shown."""
    return max(1, found.message.attempts - len(found.attempts) + 1)


def _compared(found: MessageDetails, wanted: str) -> int:
    """Return the place of the failure that is compared with the one before it."""
    last = len(found.attempts) - 1
    place = int(wanted[:9]) - _first_number(found) if wanted.isascii() and wanted.isdecimal() else 0
    return place if 1 <= place <= last else last


def _compare(found: MessageDetails, place: int) -> Comparison | None:
    """Return what changed with the failure at a place; None if none was before it."""
    if place < 1:
        return None
    before, after = found.attempts[place - 1 : place + 1]
    number = _first_number(found) + place
    return Comparison(
        before=number - 1,
        after=number,
        times=(time_of(before), time_of(after)),
        facts=list(_facts(before, after)),
        trace=list(_trace(before.stack_trace or "", after.stack_trace or "")),
        has_trace=bool(before.stack_trace or after.stack_trace),
    )


def _attempts(
    found: MessageDetails, history: PagedList[ShownHistoryLine], compared: int
) -> Iterator[AttemptRow]:
    first = _first_number(found)
    for place, each in reversed(list(enumerate(found.attempts))):
        yield AttemptRow(
            number=first + place,
            at=time_of(each),
            title=_title(each, "no reason given")[:300],
            decided=_decided(each),
            host=each.host,
            is_compared=place == compared and place > 0,
            compare=history.to(compare=str(first + place)) if place else "",
        )


def _title(failure: ListedMessage | ShownAttempt, otherwise: str) -> str:
    """Return what failed, in one line."""
    parts = (failure.exception_type, failure.exception_message or failure.failure_reason)
    return first_line(": ".join(part for part in parts if part) or otherwise)


def _decided(each: ShownAttempt) -> str | None:
    if each.disposition in (None, Disposition.MANUAL) and not each.disposition_reason:
        return None
    parts = (each.disposition, each.disposition_reason)
    return ": ".join(str(part) for part in parts if part)


def _headers(headers: Mapping[str, object]) -> Iterator[tuple[str, str, int]]:
    """Yield names and values, and how many characters of each value are left out."""
    for name in sorted(headers, key=str.lower)[:MOST_HEADERS]:
        value = headers[name]
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        yield name[:LONGEST_VALUE], text[:LONGEST_VALUE], max(0, len(text) - LONGEST_VALUE)


_EDITS = {
    EditState.WAITING: ("is on its way", "wait"),
    EditState.SENT: ("was sent", "good"),
    EditState.RETURNED: ("could not be sent", "bad"),
    EditState.DROPPED: ("was not sent", ""),
    EditState.IN_DOUBT: ("may have been sent", "bad"),
}
"""What became of an edit, and the tone of the word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EditNote:
    """An edit of the message, with what it changes."""

    edit: ShownEdit
    state: str
    tone: str


def _edit(shown: ShownEdit) -> EditNote:
    state, tone = ("waits for approval", "wait") if shown.is_asking else _EDITS[shown.state]
    return EditNote(edit=shown, state=state, tone=tone)


router = APIRouter(prefix="/messages/{unique_id}")

Wanted = Annotated[MessageQuery, Depends()]
LONGEST_WHY = 500
_NO_HISTORY: Page[HistoryLine] = Page(items=(), total=0)


@router.get("")
def get_message(request: Request, unique_id: str, parts: Parts, query: Wanted) -> Response:
    """Show one message."""
    # Before the message is read: a page whose mark is too old is renewed once more than it must be,
    # one whose mark is too new would stay as it is.
    seen = find_marks(parts.db, [unique_id]).get(canonical(unique_id))
    found = find_message(parts.db, unique_id, parts.codec)
    if found is None:
        raise _unknown(parts, unique_id)
    page = PageRequest(number=query.number, size=LINES)
    # Retention may delete it between two reads; then its history is empty.
    history = find_history(parts.db, unique_id, page, parts.codec, descending=True) or _NO_HISTORY
    path = f"/messages/{found.message.unique_message_id}"
    listing = PagedList(
        rows=[_history_line(each) for each in history.items],
        total=history.total,
        number=query.number,
        path=path,
        values=query.values,
        size=LINES,
        page="history",
    )
    body = hide_body(found.body_size)
    if parts.shows_content:
        beginning = find_beginning(parts.db, unique_id, SHOWN)
        form = choose(query.body, "body", FORMS)
        packed = packed_as(found.properties, found.headers)
        body = show_body(beginning, found.body_size, form, packed)
    goes_on = body.kind is BodyKind.BYTES and not body.is_unpacked
    reasons, place = find_waits(parts.db, unique_id), find_place(parts.db, unique_id)
    key = found.message.unique_message_id
    is_shown = parts.field_names and parts.shows_content
    fields = find_fields(parts.db, [key])[key] if is_shown else {}
    compared = _compared(found, query.compare)
    badge_text, badge_tone = badge_of(found.message)
    return show(
        request,
        "message.html",
        current="/messages",
        found=found,
        message=found.message,
        here=path,
        title=_title(found.message, "It failed without a reason")[:200],
        group=next((each for each in found.groups if each.classifier == CLASSIFIERS[0]), None),
        state=state_of(found, waits=bool(reasons)),
        badge_text=badge_text,
        badge_tone=badge_tone,
        may=frozenset(_allowed(found)),
        is_lost_next=found.message.failure_reason == LOST_NEXT,
        waits=[each for each in reasons if each.holding is not Holding.STREAM],
        edits=[_edit(each) for each in parts.changes(found.edits)],
        fields=fields,
        place=place,
        stream_link="" if place is None else link_of_place(place),
        attempts=list(_attempts(found, listing, compared)),
        changed=_compare(found, compared),
        headers=list(_headers(parts.headers(found.headers))),
        headers_left_out=max(0, len(found.headers) - MOST_HEADERS),
        body=body,
        bytes_left=bytes_after(body.shown, body.size) if goes_on else 0,
        history=listing,
        seen=seen,
    )


@router.get("/bytes")
def get_more_bytes(request: Request, unique_id: str, parts: Parts, first: str = "") -> Response:
    """Show a further part of the body in hexadecimal digits."""
    found = find_message(parts.db, unique_id, parts.codec)
    if found is None:
        raise _unknown(parts, unique_id)
    start, last, text = show_bytes(find_beginning(parts.db, unique_id, SHOWN), first)
    return show(
        request,
        "bytes.html",
        current="/messages",
        path=f"/messages/{found.message.unique_message_id}",
        text=text,
        first=start,
        last=last,
        size=found.body_size,
        bytes_left=bytes_after(last, found.body_size),
    )


@router.get("/body")
def download_body(unique_id: str, parts: Parts) -> Response:
    """Return the whole body as it came, as a file: no browser shows or runs it."""
    found = find_body(parts.db, _known(parts, unique_id), parts.codec)
    if found is None:
        raise _unknown(parts, unique_id)
    return _as_file(unique_id, found.body)


@router.get("/edits/{edit_id}/body")
def download_edited_body(unique_id: str, edit_id: str, parts: Parts) -> Response:
    """Return the body that an edit sends instead of the message's own, as a file."""
    found = find_edited_body(parts.db, _known(parts, unique_id), edit_id, parts.codec)
    if found is None:
        raise HTTPException(404, f"No edit of this message has the id {edit_id[:100]}.")
    return _as_file(edit_id, found.body)


def _as_file(name: str, body: bytes) -> Response:
    # A name of our own: the id is a GUID, and nothing that a sender wrote is in the header.
    ends = EXTENSIONS[show_body(body[:SHOWN], len(body)).kind]
    headers = {
        **HEADERS,
        "Content-Disposition": f'attachment; filename="{name}.{ends}"',
        "Content-Security-Policy": "sandbox; default-src 'none'",
    }
    return Response(body, headers=headers, media_type="application/octet-stream")


@router.get("/retry")
def preview_retry(request: Request, unique_id: str, parts: Parts, back: str = "") -> Response:
    """Show where a retry would go, and the form that asks for it."""
    return show_preview(
        request,
        Selection(ids=(_known(parts, unique_id),)),
        what=f"Message {unique_id}",
        post_to=f"/messages/{unique_id}/retry",
        back=local(back, f"/messages/{unique_id}"),
        asks_where=True,
    )


@router.post("/retry")
def retry(unique_id: str, parts: Parts, form: SentForm) -> Response:
    """Ask for a retry of the message."""
    request = _to_retry(parts, unique_id, form, "retry")
    made = parts.gateway.retry(request)
    return see_other(form.next(f"retry:{made.operation_id}", f"/messages/{unique_id}"))


@router.post("/revive")
def revive(unique_id: str, parts: Parts, form: SentForm) -> Response:
    """Retry a dead message; its failures are counted from one again."""
    request = _to_retry(parts, unique_id, form, "revive")
    made = parts.gateway.revive(request, unique_id)
    if isinstance(made, ActRefusal):
        raise _refused(parts, unique_id, made)
    return see_other(form.next(f"retry:{made.operation_id}", f"/messages/{unique_id}"))


@router.get("/again")
def ask_again(request: Request, unique_id: str, parts: Parts) -> Response:
    """Ask before a message is retried whose retry has no outcome yet."""
    question = _question(parts, unique_id, "again", "Retry it again", WITHOUT_OUTCOME)
    ways = next_ways(parts, Selection(ids=(canonical(unique_id),)))
    question = replace(question, destinations=ways.destinations, warnings=ways.warnings)
    return show(request, "question.html", current="/messages", question=question)


@router.post("/again")
def retry_again(unique_id: str, parts: Parts, form: SentForm) -> Response:
    """Stop waiting for the outcome of its retry, and send it back once more."""
    made = parts.gateway.retry_again(_to_retry(parts, unique_id, form, "retry again"))
    done = f"retry:{made.operation_ids[0]}" if made.operation_ids else "unchanged"
    return see_other(form.next(done, f"/messages/{unique_id}"))


@router.get("/resolve")
def ask_resolve(request: Request, unique_id: str, parts: Parts) -> Response:
    """Ask before a message is resolved by hand."""
    text = "It counts as dealt with, and is never retried. It cannot be undone."
    question = _question(parts, unique_id, "resolve", "Resolve it", text)
    return show(request, "question.html", current="/messages", question=question)


@router.get("/dead")
def ask_dead(request: Request, unique_id: str, parts: Parts) -> Response:
    """Ask why a message is to be declared dead."""
    text = "It is given up: neither automatic nor bulk retries take it. A person can revive it."
    question = _question(parts, unique_id, "dead", "Declare it dead", text, why="needed")
    question = replace(question, reasons=sorted(BUILT_IN))
    return show(request, "question.html", current="/messages", question=question)


@router.post("/dead")
def declare_dead(unique_id: str, parts: Parts, form: SentForm) -> Response:
    """Declare the message dead."""
    why = form.text("why", LONGEST_WHY)
    if not why:
        raise HTTPException(400, "Say why it is declared dead: the reason is shown with it.")
    word = form.text("reason") or None
    why_not = None if word is None else why_not_a_reason(word)
    if why_not is not None:
        raise HTTPException(400, f"The reason {word} cannot be given. {why_not}")
    reason = find_named(word)
    refusal = parts.gateway.archives.declare_dead(unique_id, why, form.requested_by, reason)
    # That it is dead already is what a form that was sent twice finds.
    if refusal not in (None, ActRefusal.DEAD):
        raise _refused(parts, unique_id, refusal)
    return see_other(form.next("dead", f"/messages/{unique_id}"))


def _act(act: Act) -> Callable[[str, Parts, SentForm], Response]:
    def answer(unique_id: str, parts: Parts, form: SentForm) -> Response:
        selection = Selection(ids=(_known(parts, unique_id),))
        request = form.archive(act, selection, f"{act} of message {unique_id}")
        done = parts.gateway.archives.ask(request).operation
        return see_other(form.next(f"archive:{done.operation_id}", f"/messages/{unique_id}"))

    return answer


for _each in (Act.ARCHIVE, Act.UNARCHIVE, Act.RESOLVE):
    router.post(f"/{_each}", name=_each)(_act(_each))


def _to_retry(parts: PageParts, unique_id: str, form: Form, name: str) -> RetryRequest:
    selection = Selection(ids=(_known(parts, unique_id),))
    return form.retry(selection, f"{name} of message {unique_id}", form.terms(parts))


def _question(
    parts: PageParts, unique_id: str, act: str, name: str, text: str, why: str = "asked"
) -> QuestionForm:
    _known(parts, unique_id)
    return QuestionForm(
        title=f"{name}?",
        what=f"Message {unique_id}",
        post_to=f"/messages/{unique_id}/{act}",
        back=f"/messages/{unique_id}",
        button=name,
        text=text,
        why=why,
    )


def _known(parts: PageParts, unique_id: str) -> str:
    """Return the id of a message that there is. Raises HTTPException."""
    found = find_listed(parts.db, unique_id, parts.codec)
    if found is None:
        raise _unknown(parts, unique_id)
    return found.unique_message_id


def _unknown(parts: PageParts, unique_id: str) -> HTTPException:
    text = f"No failed message has the id {unique_id[:100]}."
    if find_send(parts.db, unique_id) is None:
        return HTTPException(404, text)
    return HTTPException(404, f"{text} It is that of a failed import: see the page of imports.")


def _refused(parts: PageParts, unique_id: str, refusal: ActRefusal | None) -> HTTPException:
    if refusal is ActRefusal.UNKNOWN:
        return _unknown(parts, unique_id)
    return HTTPException(409, f"Nothing was done: {refusal}.")
