"""The history of one message: every failure of it, and everything that happened to it."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response

from retrier.api.answers import answer
from retrier.api.filters import PageQuery, page_headers
from retrier.api.parts import Parts
from retrier.api.problems import problem
from retrier.api.views.message_history import full_attempt, line
from retrier.store.queries.attempts import list_attempts
from retrier.store.queries.message_history import find_history

router = APIRouter(prefix="/api", tags=["failed messages"])


def _direction(
    direction: Annotated[str, Query(description="asc (oldest first) or desc")] = "",
) -> bool:
    return direction == "desc"


Descending = Annotated[bool, Depends(_direction)]


@router.get("/errors/{failed_message_id}/attempts")
def get_attempts(
    request: Request, failed_message_id: str, parts: Parts, page: PageQuery, newest: Descending
) -> Response:
    """List every failure of a message, the oldest first."""
    found = list_attempts(parts.db, failed_message_id, page, parts.codec, descending=newest)
    if found is None:
        return _unknown(failed_message_id)
    items = [full_attempt(each) for each in found.items]
    return answer(request, items, page_headers(request, page, found.total))


@router.get("/errors/{failed_message_id}/events")
def get_history(
    request: Request, failed_message_id: str, parts: Parts, page: PageQuery, newest: Descending
) -> Response:
    """List everything that happened to a message, the oldest first."""
    found = find_history(parts.db, failed_message_id, page, parts.codec, descending=newest)
    if found is None:
        return _unknown(failed_message_id)
    items = [line(each) for each in found.items]
    return answer(request, items, page_headers(request, page, found.total))


def _unknown(failed_message_id: str) -> Response:
    return problem(404, f"No failed message has the id {failed_message_id[:100]}.")
