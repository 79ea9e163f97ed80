"""One message: its page, its body, and what can be done with it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException, Request, Response

from retrier.domain.archive_operation import Act, Refusal
from retrier.domain.identity import canonical
from retrier.domain.retry_operation import RetryRequest, RetryTerms, RetryType
from retrier.domain.selection import Selection
from retrier.policy.reasons import BUILT_IN, find_named, why_not_a_reason
from retrier.store.queries.details import find_beginning, find_body, find_listed, find_message
from retrier.store.queries.imports import find_send
from retrier.store.queries.message_history import find_history
from retrier.store.queries.message_marks import find_marks
from retrier.store.queries.message_waits import find_waits
from retrier.store.queries.ordering import Page, PageRequest
from retrier.store.queries.streams import find_place
from retrier.web.forms import Form, SentForm, local
from retrier.web.parts import PageParts, Parts
from retrier.web.routes.messages import AGAIN
from retrier.web.showing import HEADERS, see_other, show
from retrier.web.views.bodies import EXTENSIONS, SHOWN, show_body, show_more
from retrier.web.views.message import LINES, MessageQuery, message_page
from retrier.web.views.previews import Asked, look_ahead
from retrier.web.views.questions import Question
from retrier.web.views.streams import Waits

router = APIRouter(prefix="/messages/{unique_id}")

Wanted = Annotated[MessageQuery, Depends()]
LONGEST_WHY = 500


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
    history = find_history(parts.db, unique_id, page, parts.codec, descending=True)
    # Retention may delete it between two looks; then its history is empty.
    told = history or Page(items=(), total=0)
    body = show_body(find_beginning(parts.db, unique_id, SHOWN), found.body_size, query.body)
    waits = Waits(reasons=find_waits(parts.db, unique_id), place=find_place(parts.db, unique_id))
    view = message_page(found, body, told, query, waits, seen)
    return show(request, "message.html", view, current="/messages")


@router.get("/bytes")
def get_more_bytes(request: Request, unique_id: str, parts: Parts, first: str = "") -> Response:
    """Show a further part of the body in hexadecimal digits."""
    found = find_message(parts.db, unique_id, parts.codec)
    if found is None:
        raise _unknown(parts, unique_id)
    beginning = find_beginning(parts.db, unique_id, SHOWN)
    path = f"/messages/{found.message.unique_message_id}"
    view = show_more(beginning, found.body_size, path, first)
    return show(request, "bytes.html", view, current="/messages")


@router.get("/body")
def download_body(unique_id: str, parts: Parts) -> Response:
    """Return the whole body as it came, as a file: no browser shows or runs it."""
    found = find_body(parts.db, _known(parts, unique_id), parts.codec)
    if found is None:
        raise _unknown(parts, unique_id)
    # A name of our own: the id is a GUID, and nothing that a sender wrote is in the header.
    ends = EXTENSIONS[show_body(found.body[:SHOWN], len(found.body)).kind]
    headers = {
        **HEADERS,
        "Content-Disposition": f'attachment; filename="{unique_id}.{ends}"',
        "Content-Security-Policy": "sandbox; default-src 'none'",
    }
    return Response(found.body, headers=headers, media_type="application/octet-stream")


@router.get("/retry")
def preview_retry(request: Request, unique_id: str, parts: Parts, back: str = "") -> Response:
    """Show where a retry would go, and the form that asks for it."""
    selection = Selection(ids=(_known(parts, unique_id),))
    previewed = RetryRequest(
        retry_type=RetryType.SINGLE_MESSAGE,
        selection=selection,
        originator="",
        requested_by="",
    )
    to_ask = Asked(
        request=previewed,
        what=f"Message {unique_id}",
        post_to=f"/messages/{unique_id}/retry",
        back=local(back, f"/messages/{unique_id}"),
        asks_where=True,
    )
    return show(request, "retry.html", look_ahead(parts, to_ask), current="/messages")


@router.post("/retry")
def retry(unique_id: str, parts: Parts, form: SentForm) -> Response:
    """Ask for a retry of the message."""
    request = _to_retry(parts, unique_id, form, "retry")
    made = parts.gateway.retry(request)
    return see_other(form.next(f"retry:{made.operation_id}", f"/messages/{unique_id}"))


@router.post("/revive")
def revive(unique_id: str, parts: Parts, form: SentForm) -> Response:
    """Retry a dead message; its failures are counted anew."""
    request = _to_retry(parts, unique_id, form, "revive")
    made = parts.gateway.revive(request, unique_id)
    if isinstance(made, Refusal):
        raise _refused(parts, unique_id, made)
    return see_other(form.next(f"retry:{made.operation_id}", f"/messages/{unique_id}"))


@router.get("/again")
def ask_again(request: Request, unique_id: str, parts: Parts) -> Response:
    """Ask before a message is retried whose retry has no outcome yet."""
    question = _question(parts, unique_id, "again", "Retry it again", AGAIN)
    return show(request, "question.html", question, current="/messages")


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
    return show(request, "question.html", question, current="/messages")


@router.get("/dead")
def ask_dead(request: Request, unique_id: str, parts: Parts) -> Response:
    """Ask why a message is to be declared dead."""
    text = "It is given up: neither automatic nor bulk retries take it. A person can revive it."
    question = _question(parts, unique_id, "dead", "Declare it dead", text, why="needed")
    question = replace(question, reasons=sorted(BUILT_IN))
    return show(request, "question.html", question, current="/messages")


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
    if refusal not in (None, Refusal.DEAD):
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
    destination = form.text("destination") or None
    if destination is not None:
        _check_destination(parts, destination)
    terms = RetryTerms(rate=form.rate, destination=destination, drop_headers=form.drop_headers)
    return form.retry(selection, f"{name} of message {unique_id}", terms)


def _check_destination(parts: PageParts, destination: str) -> None:
    why_not = parts.gateway.why_not_send_to(destination)
    if why_not is not None:
        raise HTTPException(400, f"Retries cannot be sent there: {why_not}.")
    if destination in parts.look_at([destination]).missing:
        raise HTTPException(409, f"The queue {destination} does not exist: the retry would fail.")


def _question(
    parts: PageParts, unique_id: str, act: str, name: str, text: str, why: str = "asked"
) -> Question:
    _known(parts, unique_id)
    return Question(
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


def _refused(parts: PageParts, unique_id: str, refusal: Refusal | None) -> HTTPException:
    if refusal is Refusal.UNKNOWN:
        return _unknown(parts, unique_id)
    return HTTPException(409, f"Nothing was done: {refusal}.")
