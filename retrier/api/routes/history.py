"""The history of retries, and acknowledging that one is over."""

from fastapi import APIRouter, Request, Response

from retrier.api.answers import HEADERS, answer
from retrier.api.parts import Parts
from retrier.api.problems import problem
from retrier.api.request_context import InContext
from retrier.api.views.history import history
from retrier.store.queries.history import read_history

router = APIRouter(prefix="/api/recoverability", tags=["history"])


@router.get("/history")
def get_history(request: Request, parts: Parts) -> Response:
    """List the last 10 finished retries, and those that nobody has acknowledged."""
    return answer(request, history(read_history(parts.db)))


@router.delete("/unacknowledgedgroups/{group_id}", status_code=200, response_class=Response)
def acknowledge_group(group_id: str, context: InContext) -> Response:
    """Acknowledge that the retry or archive of a group is over: the group shows it no longer."""
    if not context.gateway.acknowledge_group(group_id, context.requested_by):
        return problem(404, f"Nothing of the group {group_id[:100]} is to be acknowledged.")
    return Response(status_code=200, headers=HEADERS)
