"""Redirects: listed with what they concern, set, changed, deleted."""

from collections.abc import Mapping

from fastapi import APIRouter, HTTPException, Request, Response

from retrier.domain.redirects import RedirectRefusal, what_it_moves
from retrier.domain.retry_operation import AskedAgain, RetryTerms
from retrier.domain.selection import Selection
from retrier.store.redirects import Redirect, list_redirects
from retrier.web.counts import Snapshot
from retrier.web.forms import Form, QuestionForm, SentForm
from retrier.web.page import see_other, show
from retrier.web.parts import PageParts, Parts
from retrier.web.wording import plural, sentence


def counts_of(found: Snapshot) -> Mapping[str, int]:
    """Return how many messages are unresolved by queue."""
    return {each.key: each.count for each in found.queues}


router = APIRouter(prefix="/redirects")

_HERE = "/redirects"
_BLANK = "A redirect has a queue that it comes from and one that it leads to."
_CONFLICTS = (RedirectRefusal.DUPLICATE, RedirectRefusal.DEPENDENTS)


@router.get("")
def get_redirects(request: Request, parts: Parts) -> Response:
    """List the redirects, with the form for a new one."""
    redirects = list_redirects(parts.db)
    sight = parts.look_at([each.to_queue for each in redirects])
    counts = counts_of(parts.counts.snapshot())
    return show(
        request,
        "redirects.html",
        current=_HERE,
        redirects=redirects,
        unresolved=counts,
        queues=sorted(counts),
        sight=sight,
    )


@router.post("")
def create_redirect(parts: Parts, form: SentForm) -> Response:
    """Send retries for one queue to another from now on; perhaps what is pending, too."""
    source, target = form.text("from"), form.text("to")
    refusal = _check(source, target) or parts.gateway.create_redirect(
        source, target, form.requested_by
    )
    if refusal is not None or not form.text("pending"):
        return _done(refusal, "redirect-set")
    return see_other(form.next_after(_retry_pending(parts, form, source), _HERE))


@router.get("/{redirect_id}")
def get_redirect(request: Request, redirect_id: str, parts: Parts) -> Response:
    """Show one redirect, and the form that changes it."""
    found = _find(parts, redirect_id)
    return show(
        request,
        "redirect.html",
        current=_HERE,
        redirect=found,
        unresolved=counts_of(parts.counts.snapshot()).get(found.from_queue, 0),
        is_missing=found.to_queue in parts.look_at([found.to_queue]).missing,
    )


@router.post("/{redirect_id}")
def change_redirect(redirect_id: str, parts: Parts, form: SentForm) -> Response:
    """Change the queue to which a redirect leads."""
    target = form.text("to")
    refusal = _check(target) or parts.gateway.change_redirect(
        redirect_id, target, form.requested_by
    )
    return _done(refusal, "redirect-set")


@router.get("/{redirect_id}/delete")
def ask_delete(request: Request, redirect_id: str, parts: Parts) -> Response:
    """Show what a deletion means, and the form that does it."""
    found = _find(parts, redirect_id)
    count = counts_of(parts.counts.snapshot()).get(found.from_queue, 0)
    question = QuestionForm(
        title="Delete this redirect?",
        what=f"Retries for {found.from_queue} go there again, and no more to {found.to_queue}.",
        text=f"{plural(count, 'unresolved message')} failed on {found.from_queue}.",
        post_to=f"{_HERE}/{found.redirect_id}/delete",
        back=_HERE,
        button="Delete the redirect",
        why="",
    )
    return show(request, "question.html", current=_HERE, question=question)


@router.post("/{redirect_id}/delete")
def delete_redirect(redirect_id: str, parts: Parts, form: SentForm) -> Response:
    """Delete a redirect; one that is gone already is gone, too."""
    parts.gateway.delete_redirect(redirect_id, form.requested_by)
    return see_other(f"{_HERE}?done=redirect-deleted")


def _retry_pending(parts: PageParts, form: Form, queue: str) -> AskedAgain:
    """Send once more what was sent to a queue and has no outcome: it goes where the redirect leads."""
    words = f"retry of what was sent to {queue} and is pending"
    request = form.retry(Selection(ids=()), words, RetryTerms())
    return parts.gateway.retry_again(request, what_it_moves(queue))


def _check(*queues: str) -> str | None:
    return None if all(queues) else _BLANK


def _done(refusal: str | None, done: str) -> Response:
    if refusal is None:
        return see_other(f"{_HERE}?done={done}")
    if refusal == RedirectRefusal.UNKNOWN:
        raise HTTPException(404, refusal)
    raise HTTPException(409 if refusal in _CONFLICTS else 400, sentence(refusal))


def _find(parts: PageParts, redirect_id: str) -> Redirect:
    wanted = redirect_id.lower()
    found = (each for each in list_redirects(parts.db) if each.redirect_id == wanted)
    redirect = next(found, None)
    if redirect is None:
        raise HTTPException(404, RedirectRefusal.UNKNOWN.value)
    return redirect
