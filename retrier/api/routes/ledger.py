"""The ledger: whether everything adds up."""

from fastapi import APIRouter, Request, Response

from retrier.api.answers import answer
from retrier.api.parts import Parts
from retrier.api.views.ledger import ledger
from retrier.store.queries.ledger import read_ledger

router = APIRouter(prefix="/api", tags=["service"])


@router.get("/ledger")
def get_ledger(request: Request, parts: Parts) -> Response:
    """Return what was taken off the error queues and what became of it."""
    return answer(request, ledger(read_ledger(parts.db)))
