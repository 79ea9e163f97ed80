"""Saved views: a list of the page with its conditions, under a name."""

from fastapi import Request, Response
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from retrier.api.answers import HEADERS, Answer, Refusal, Routes, answer, problem, time
from retrier.api.parts import Parts
from retrier.api.requests import InContext, PageQuery, page_headers
from retrier.api.shapes import messages as shapes
from retrier.domain.views import SavedView, ViewRefusal
from retrier.http.views import read_wanted_view
from retrier.store.views import find_view, list_views

router = Routes(prefix="/api", tags=["views"])

_CONFLICTS = frozenset({ViewRefusal.TAKEN, ViewRefusal.CHANGED, ViewRefusal.TOO_MANY})


class WantedView(BaseModel):
    """What PUT takes; `version` is that of the view which it replaces, nothing for a new one."""

    page: str = ""
    query: str = ""
    version: int | None = None


@router.get("/views")
def get_views(request: Request, page: PageQuery, parts: Parts) -> Answer[list[shapes.SavedView]]:
    """List the saved views by name."""
    found = list_views(parts.db, shows_content=parts.shows_content)
    items = [view(each) for each in found[page.offset : page.offset + page.size]]
    return answer(request, items, page_headers(request, page, len(found)))


@router.get("/views/{name:path}")
def get_view(request: Request, name: str, parts: Parts) -> Answer[shapes.SavedView] | Refusal:
    """Return one view."""
    found = find_view(parts.db, name, shows_content=parts.shows_content)
    return _unknown(name) if found is None else answer(request, view(found))


@router.put("/views/{name:path}")
def put_view(
    request: Request, name: str, body: WantedView, parts: Parts, context: InContext
) -> Answer[shapes.SavedView] | Refusal:
    """Save a view, or replace the one whose version is named."""
    try:
        read = read_wanted_view(parts, name, body.page, body.query)
    except HTTPException as error:
        wrong = {"field": "body.query", "reason": error.detail}
        return problem(422, error.detail, errors=[wrong])
    saved = (
        read
        if isinstance(read, ViewRefusal)
        else context.gateway.views.save(read, context.requested_by, body.version)
    )
    if isinstance(saved, ViewRefusal):
        return problem(409 if saved in _CONFLICTS else 422, saved)
    return answer(request, view(saved))


@router.delete("/views/{name:path}", status_code=204)
def delete_view(name: str, context: InContext) -> Response:
    """Delete a view; one that does not exist is a success, too."""
    context.gateway.views.delete(name, context.requested_by)
    return Response(status_code=204, headers=HEADERS)


def view(shown: SavedView) -> shapes.SavedView:
    """Show one view."""
    return {
        "name": shown.view.name,
        "page": shown.view.page,
        "query": shown.view.query,
        "path": shown.view.path,
        "saved_by": shown.who,
        "saved_at": time(shown.saved_at),
        "version": shown.version,
    }


def _unknown(name: str) -> Refusal:
    return problem(404, f"No view has the name {name[:100]}.")
