"""Operations and batches: how far a retry is."""

from fastapi import APIRouter, Request, Response

from retrier.api.answers import TOTAL_COUNT, answer
from retrier.api.filters import IdsQuery, PageQuery, page_headers
from retrier.api.parts import Parts
from retrier.api.problems import problem
from retrier.api.views.operations import batch, batch_details, details, listed
from retrier.api.views.processor import processor
from retrier.store.queries.batches import find_batch, list_batches
from retrier.store.queries.operations import find_operation, list_operations
from retrier.store.queries.processor_work import find_processor

router = APIRouter(prefix="/api", tags=["operations"])


@router.get("/operations")
def get_operations(request: Request, parts: Parts, page: PageQuery, ids: IdsQuery) -> Response:
    """List all operations, newest first; the one that sends what is due by policy stands before."""
    found = list_operations(parts.db, page, ids)
    items = [listed(each, found) for each in found.page.items]
    return answer(request, items, page_headers(request, page, found.page.total))


@router.get("/operations/{operation_id}")
def get_operation(request: Request, operation_id: str, parts: Parts) -> Response:
    """Return one operation, with the reason for each named id that was skipped."""
    found = find_operation(parts.db, operation_id)
    if found is None:
        return problem(404, f"No operation has the id {operation_id[:100]}.")
    return answer(request, details(found))


@router.get("/batches")
def get_batches(request: Request, parts: Parts) -> Response:
    """List every batch now alive, oldest first."""
    found = list_batches(parts.db)
    return answer(request, [batch(each) for each in found], {TOTAL_COUNT: str(len(found))})


@router.get("/batches/{batch_id}")
def get_batch(request: Request, batch_id: str, parts: Parts) -> Response:
    """Return one batch, with the claims in doubt: perhaps sent, but not recorded as sent."""
    found = find_batch(parts.db, batch_id)
    if found is None:
        return problem(404, f"No batch alive has the id {batch_id[:100]}; a batch done is gone.")
    return answer(request, batch_details(found))


@router.get("/processor")
def get_processor(request: Request, parts: Parts) -> Response:
    """Return which process is the processor, what it does, and what it waits for and why."""
    found = find_processor(parts.db)
    holder = found.processor
    is_here = holder is not None and holder.is_held and holder.session_id == parts.session_id
    return answer(request, processor(found, parts.health().get("processor") if is_here else None))
