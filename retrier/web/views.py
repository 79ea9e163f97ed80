"""Saved views: lists with their conditions under a name; `/views/NAME` leads to the list."""

from collections.abc import Mapping
from urllib.parse import parse_qsl, quote

from fastapi import APIRouter, HTTPException, Request, Response

from retrier.domain.views import LONGEST_NAME, LONGEST_QUERY, SavedView, ViewRefusal
from retrier.http.views import read_wanted_view
from retrier.store.views import find_view, list_views
from retrier.web.forms import QuestionForm, SentForm, local
from retrier.web.page import see_other, show
from retrier.web.parts import Parts
from retrier.web.wording import sentence

_HERE = "/views"
_CONFLICTS = frozenset({ViewRefusal.TAKEN, ViewRefusal.CHANGED, ViewRefusal.TOO_MANY})
_LONGEST_VERSION = 18


def conditions_of(saved: SavedView) -> Mapping[str, str]:
    """Return what a view keeps, by name."""
    return dict(parse_qsl(saved.view.query))


router = APIRouter()


@router.get(_HERE)
def get_views(request: Request, parts: Parts) -> Response:
    """List the saved views."""
    found = [
        (each, conditions_of(each))
        for each in list_views(parts.db, shows_content=parts.shows_content)
    ]
    return show(request, "views.html", current=_HERE, views=found)


@router.get("/save-view")
def ask_name(
    request: Request, parts: Parts, view: str = "", query: str = "", back: str = "/"
) -> Response:
    """Ask for the name under which a list with its conditions is saved."""
    found = read_wanted_view(parts, "unnamed", view, query)
    if isinstance(found, ViewRefusal):
        raise HTTPException(400, sentence(found))
    return show(
        request,
        "view.html",
        current=f"/{found.page}",
        view=found,
        conditions=dict(parse_qsl(found.query)),
        back=local(back, found.path),
        longest=LONGEST_NAME,
    )


@router.post("/save-view")
def save_view(request: Request, parts: Parts, form: SentForm) -> Response:
    """Save it; under a name that is taken, show what would be replaced, and ask."""
    name, query = form.exactly("name").strip(), form.exactly("query")[: LONGEST_QUERY + 1]
    version = form.text("version", _LONGEST_VERSION)
    read = read_wanted_view(parts, name, form.exactly("view"), query)
    replaced = int(version) if version.isascii() and version.isdecimal() else None
    saved = (
        read
        if isinstance(read, ViewRefusal)
        else parts.gateway.views.save(read, form.requested_by, replaced)
    )
    known = (
        find_view(parts.db, name, shows_content=parts.shows_content)
        if saved is ViewRefusal.TAKEN
        else None
    )
    if known is not None:
        return _ask_replace(request, known, form.exactly("view"), query, form.back("/"))
    if isinstance(saved, ViewRefusal):
        raise HTTPException(409 if saved in _CONFLICTS else 400, sentence(saved))
    return see_other(form.next("view-saved", saved.view.path))


def _ask_replace(request: Request, known: SavedView, view: str, query: str, back: str) -> Response:
    question = QuestionForm(
        title=f"Replace the view “{known.view.name}”?",
        what=f"It was saved by {known.who}, and shows {known.view.page} with other conditions.",
        button="Replace it",
        post_to="/save-view",
        back=back,
        notes=[
            f"{name.replace('_', ' ')}: {value}" for name, value in conditions_of(known).items()
        ],
        fields=[
            ("name", known.view.name),
            ("view", view),
            ("query", query),
            ("version", str(known.version)),
        ],
        why="",
        leave="Keep it",
    )
    return show(request, "question.html", current=_HERE, question=question)


@router.get(f"{_HERE}/{{name}}/delete")
def ask_delete(request: Request, name: str, parts: Parts) -> Response:
    """Say what a deletion means, and the form that does it."""
    found = _find(parts, name)
    question = QuestionForm(
        title=f"Delete the view “{found.view.name}”?",
        what=f"Its address leads nowhere then. The {found.view.page} themselves are left as they are.",
        post_to=f"{_HERE}/{quote(found.view.name)}/delete",
        back=_HERE,
        button="Delete the view",
        why="",
    )
    return show(request, "question.html", current=_HERE, question=question)


@router.post(f"{_HERE}/{{name}}/delete")
def delete_view(name: str, parts: Parts, form: SentForm) -> Response:
    """Delete a view; one that is gone already is gone, too."""
    parts.gateway.views.delete(name, form.requested_by)
    return see_other(f"{_HERE}?done=view-deleted")


@router.get(f"{_HERE}/{{name:path}}")
def open_view(name: str, parts: Parts) -> Response:
    """Lead to the list that was saved under this name."""
    return see_other(_find(parts, name).view.path)


def _find(parts: Parts, name: str) -> SavedView:
    found = find_view(parts.db, name, shows_content=parts.shows_content)
    if found is None:
        raise HTTPException(404, f"No view has the name {name[:100]}.")
    return found
