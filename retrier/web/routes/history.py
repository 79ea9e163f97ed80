"""The history of retries."""

from fastapi import APIRouter, Request, Response

from retrier.store.queries.history import read_history
from retrier.web.parts import Parts
from retrier.web.showing import show
from retrier.web.views.history import history_page

router = APIRouter(prefix="/history")


@router.get("")
def get_history(request: Request, parts: Parts) -> Response:
    """Show the last retries that are over, and those whose end nobody has taken note of."""
    view = history_page(read_history(parts.db))
    return show(request, "history.html", view, current="/operations")
