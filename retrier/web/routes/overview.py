"""The overview."""

from fastapi import APIRouter, Request, Response

from retrier.domain.classifiers import CLASSIFIERS
from retrier.web.listed_groups import list_rows
from retrier.web.parts import Parts
from retrier.web.showing import show
from retrier.web.views.groups import group_prefix
from retrier.web.views.overview import overview
from retrier.web.views.plot import SPANS

router = APIRouter()


@router.get("/")
def get_overview(request: Request, parts: Parts, span: str = "") -> Response:
    """Show what is the matter."""
    found = parts.counts.look()
    default = CLASSIFIERS[0]
    groups = list_rows(parts.db, found, default)
    chosen = span if span in SPANS else next(iter(SPANS))
    view = overview(found, groups, parts.counts.trouble, chosen, group_prefix(default))
    return show(request, "overview.html", view, current="/")
