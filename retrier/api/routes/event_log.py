"""The event log."""

from fastapi import APIRouter, Request, Response

from retrier.api.answers import answer
from retrier.api.paging import PageQuery, page_headers
from retrier.api.parts import Parts
from retrier.api.views.events import event
from retrier.store.queries.events import list_events

router = APIRouter(prefix="/api", tags=["service"])


@router.get("/eventlogitems")
def get_event_log(request: Request, parts: Parts, page: PageQuery) -> Response:
    """List what happened, newest first."""
    found = list_events(parts.db, page)
    items = [event(each) for each in found.items]
    return answer(request, items, page_headers(request, page, found.total))
