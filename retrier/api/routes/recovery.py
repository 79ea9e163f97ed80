"""The recovery after a restore: what was on its way, and how long nothing is presumed."""

from typing import Annotated

from fastapi import APIRouter, HTTPException, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from retrier.api.answers import HEADERS, answer, told
from retrier.api.filters import Moment
from retrier.api.parts import Parts
from retrier.api.problems import WrongField
from retrier.api.request_context import InContext, recovered_retries
from retrier.api.views.recovery import recovering
from retrier.domain.recovery import RecoveryRefusal
from retrier.store.queries.recovery import get_recovery, list_recovering

router = APIRouter(prefix="/api/recovery", tags=["recovery"])


class Begun(BaseModel):
    """What beginning takes: the time of the backup that was restored."""

    model_config = ConfigDict(extra="forbid")

    since: Moment


class Chosen(BaseModel):
    """What is sent again: of a queue, or all; other members are refused, as they would mean all."""

    model_config = ConfigDict(extra="forbid")

    queue: Annotated[str | None, Field(min_length=1)] = None


@router.get("", name="get_recovery")
def show_recovery(request: Request, parts: Parts) -> Response:
    """Show whether a recovery is under way, and what was on its way."""
    return answer(request, recovering(list_recovering(parts.db)))


@router.post("", name="begin_recovery")
def begin_recovery(body: Begun, parts: Parts, context: InContext) -> Response:
    """Hold presumption from now on, and show what was on its way."""
    begun = context.gateway.begin_recovery(body.since, context.requested_by)
    if isinstance(begun, RecoveryRefusal):
        raise WrongField("since", begun)
    return told(recovering(list_recovering(parts.db)))


@router.delete("", status_code=204, name="end_recovery")
def end_recovery(context: InContext) -> Response:
    """End the recovery: what is old enough may be presumed; none under way is a success, too."""
    context.gateway.end_recovery(context.requested_by)
    return Response(status_code=204, headers=HEADERS)


@router.post("/retry", status_code=202, name="retry_recovered")
def retry_recovered(body: Chosen, parts: Parts, context: InContext) -> Response:
    """Send again what was sent around the backup and has no outcome."""
    found = get_recovery(parts.db)
    if found is None:
        raise HTTPException(409, RecoveryRefusal.NONE.value)
    of_queue = "" if body.queue is None else f" of queue {body.queue}"
    words = f"retry of what was on its way{of_queue}, after a restore"
    return context.retry_again(words, (), recovered_retries(found, body.queue))
