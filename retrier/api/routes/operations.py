"""Retry operations: what was asked for, and how far it is."""

from fastapi import APIRouter, Request, Response

from retrier.api.answers import answer
from retrier.api.filters import IdsQuery
from retrier.api.paging import PageQuery, page_headers
from retrier.api.parts import Parts
from retrier.api.problems import problem
from retrier.api.views.operations import details, operation
from retrier.store.queries.operations import find_operation, list_operations

router = APIRouter(prefix="/api", tags=["operations"])


@router.get("/operations")
def get_operations(request: Request, parts: Parts, page: PageQuery, ids: IdsQuery) -> Response:
    """List all operations, newest first."""
    found = list_operations(parts.db, page, ids)
    items = [operation(each) for each in found.items]
    return answer(request, items, page_headers(request, page, found.total))


@router.get("/operations/{operation_id}")
def get_operation(request: Request, operation_id: str, parts: Parts) -> Response:
    """Return one operation, with the reason for each named id that was skipped."""
    found = find_operation(parts.db, operation_id)
    if found is None:
        return problem(404, f"No operation has the id {operation_id[:100]}.")
    return answer(request, details(found))
