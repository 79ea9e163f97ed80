"""Redirects: retries for one queue go to another, starting with the next batch that is staged."""

from typing import Annotated

from fastapi import Depends, Query, Request, Response
from pydantic import BaseModel

from retrier.api.answers import HEADERS, Answer, Refusal, Routes, answer, problem, time
from retrier.api.parts import Parts
from retrier.api.requests import DIRECTION, InContext, Line, PageQuery, page_headers
from retrier.api.shapes import messages as shapes
from retrier.domain.redirects import RedirectRefusal, what_it_moves
from retrier.http.filters import choice
from retrier.store.redirects import Redirect, list_redirects

router = Routes(prefix="/api", tags=["redirects"])

_CONFLICTS = {
    RedirectRefusal.DUPLICATE: "Duplicate",
    RedirectRefusal.DEPENDENTS: "Dependents",
}
_BLANK = "A redirect has a queue that it comes from and one that it leads to."
_SORTS = {
    "from_physical_address": "from_queue",
    "to_physical_address": "to_queue",
    "last_modified": "modified_at",
}


class NewRedirect(BaseModel):
    """What POST takes; with `retryexisting` what was sent there and is pending is retried again."""

    fromphysicaladdress: Line = ""
    tophysicaladdress: Line = ""
    retryexisting: bool = False


class ChangedRedirect(BaseModel):
    """What PUT takes."""

    tophysicaladdress: Line = ""


def _ordered(
    parts: Parts,
    sort: Annotated[str, Query(), choice(_SORTS)] = "",
    direction: Annotated[str, Query(), DIRECTION] = "",
) -> tuple[Redirect, ...]:
    column = _SORTS.get(sort, "from_queue")
    found = list_redirects(parts.db)
    return tuple(sorted(found, key=lambda each: getattr(each, column), reverse=direction != "asc"))


@router.get("/redirects")
def get_redirects(
    request: Request, page: PageQuery, found: Annotated[tuple[Redirect, ...], Depends(_ordered)]
) -> Answer[list[shapes.Redirect]]:
    """List the redirects."""
    items = [redirect(each) for each in found[page.offset : page.offset + page.size]]
    return answer(request, items, page_headers(request, page, len(found)))


@router.head("/redirect")
def count_redirects(
    request: Request, page: PageQuery, parts: Parts
) -> Answer[list[shapes.Redirect]]:
    """Count the redirects."""
    found = list_redirects(parts.db)
    return answer(
        request, [redirect(each) for each in found], page_headers(request, page, len(found))
    )


@router.post("/redirects", status_code=201)
def create_redirect(body: NewRedirect, context: InContext) -> Response:
    """Send retries for one queue to another from now on."""
    source, target = body.fromphysicaladdress.strip(), body.tophysicaladdress.strip()
    refusal = _check(source, target) or context.gateway.create_redirect(
        source, target, context.requested_by
    )
    if refusal is not None:
        return _refused(refusal)
    if body.retryexisting:
        words = f"retry of what was sent to {source} and is pending"
        context.retry_again(words, (), what_it_moves(source))
    return Response(status_code=201, headers=HEADERS)


@router.put("/redirects/{redirect_id}", status_code=204)
def change_redirect(redirect_id: str, body: ChangedRedirect, context: InContext) -> Response:
    """Change the queue to which a redirect leads."""
    target = body.tophysicaladdress.strip()
    refusal = _check(target) or context.gateway.change_redirect(
        redirect_id, target, context.requested_by
    )
    return _refused(refusal) if refusal else Response(status_code=204, headers=HEADERS)


@router.delete("/redirects/{redirect_id}", status_code=204)
def delete_redirect(redirect_id: str, context: InContext) -> Response:
    """Delete a redirect; one that does not exist is a success, too."""
    context.gateway.delete_redirect(redirect_id, context.requested_by)
    return Response(status_code=204, headers=HEADERS)


def _check(*queues: str) -> str | None:
    return None if all(queues) else _BLANK


def _refused(reason: str) -> Refusal:
    if reason == RedirectRefusal.UNKNOWN:
        return problem(404, reason)
    if reason not in _CONFLICTS:
        return problem(400, reason)
    answer = problem(409, reason)
    answer.headers["X-Particular-Reason"] = _CONFLICTS[RedirectRefusal(reason)]
    return answer


def redirect(shown: Redirect) -> shapes.Redirect:
    """Show one redirect."""
    return {
        "message_redirect_id": shown.redirect_id,
        "from_physical_address": shown.from_queue,
        "to_physical_address": shown.to_queue,
        "last_modified": time(shown.modified_at),
    }
