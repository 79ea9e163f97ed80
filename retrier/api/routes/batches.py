"""Retry batches now alive, and the processor."""

from fastapi import APIRouter, Request, Response

from retrier.api.answers import TOTAL_COUNT, answer
from retrier.api.parts import Parts
from retrier.api.problems import problem
from retrier.api.views.batches import batch, details, processor
from retrier.store.queries.batches import find_batch, find_processor, list_batches

router = APIRouter(prefix="/api", tags=["operations"])


@router.get("/batches")
def get_batches(request: Request, parts: Parts) -> Response:
    """List every batch now alive, oldest first."""
    found = list_batches(parts.db)
    return answer(request, [batch(each) for each in found], {TOTAL_COUNT: str(len(found))})


@router.get("/batches/{batch_id}")
def get_batch(request: Request, batch_id: str, parts: Parts) -> Response:
    """Return one batch, with the claims that are in doubt: sent perhaps, and not recorded."""
    found = find_batch(parts.db, batch_id)
    if found is None:
        return problem(404, f"No batch alive has the id {batch_id[:100]}; a batch done is gone.")
    return answer(request, details(found))


@router.get("/processor")
def get_processor(request: Request, parts: Parts) -> Response:
    """Tell who is the processor, and which batch it forwards."""
    return answer(request, processor(find_processor(parts.db)))
