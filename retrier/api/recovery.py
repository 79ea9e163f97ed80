"""The recovery after a restore: what was on its way, and how long nothing is presumed."""

from datetime import timedelta
from typing import Annotated

from fastapi import HTTPException, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from retrier.api.answers import HEADERS, Answer, Refusal, Routes, answer, time, told
from retrier.api.archive import archive_preview
from retrier.api.parts import ApiParts, Parts
from retrier.api.requests import WITHOUT_NUL, InContext, Moment, recovered_retries
from retrier.api.selections import PlanText, named_plan, refuse_plan
from retrier.api.shapes import operations as shapes
from retrier.api.shapes.operations import ArchivePreview, AskedAgain
from retrier.domain.archive_operation import Act
from retrier.domain.recovery import Recovery, RecoveryRefusal
from retrier.domain.retry_operation import OF_ANOTHER, as_counted, hash_subject
from retrier.http.problems import WrongField
from retrier.store.pending import time_before
from retrier.store.recovery import Recovering, get_recovery, list_recovering


def recovering(shown: Recovering | None) -> shapes.Recovery:
    """Show whether one is under way, since when, and what was on its way."""
    if shown is None:
        return {"held": False, "queues": []}
    return {
        "held": True,
        "since": time(shown.recovery.since),
        "sent_from": time(shown.recovery.sent_from),
        "begun_at": time(shown.recovery.begun_at),
        "begun_by": shown.recovery.begun_by,
        "queues": [
            {
                "queue": each.queue,
                "sent": each.sent,
                "sent_before": each.sent_before,
                "in_doubt": each.in_doubt,
                "not_sent": each.not_sent,
            }
            for each in shown.queues
        ],
    }


router = Routes(prefix="/api/recovery", tags=["recovery"])


class RecoveryStart(BaseModel):
    """What beginning takes: the time of the backup that was restored."""

    model_config = ConfigDict(extra="forbid")

    since: Moment


class ResendRequest(BaseModel):
    """What is sent again: of a queue, or all; other members are refused, as they would mean all."""

    model_config = ConfigDict(extra="forbid")

    queue: Annotated[str, Field(min_length=1), WITHOUT_NUL] | None = None


class PlannedResendRequest(ResendRequest):
    """The same, or only what the preview counted of it."""

    plan: PlanText | None = None


@router.get("", name="get_recovery")
def show_recovery(request: Request, parts: Parts) -> Answer[shapes.Recovery]:
    """Show whether a recovery is under way, and what was on its way."""
    return answer(request, recovering(list_recovering(parts.db)))


@router.post("", name="begin_recovery")
def begin_recovery(
    body: RecoveryStart, parts: Parts, context: InContext
) -> Answer[shapes.Recovery]:
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
def retry_recovered(
    body: PlannedResendRequest, parts: Parts, context: InContext
) -> Answer[AskedAgain] | Refusal:
    """Send again what was sent around the backup and has no outcome."""
    found, plan = _under_way(parts), named_plan(body.plan)
    chosen = recovered_retries(found, body.queue)
    if plan is not None:
        if plan.subject != hash_subject(Act.RELEASE, chosen, *_times(found)):
            return refuse_plan(OF_ANOTHER, _look(parts, found, body.queue))
        chosen = as_counted(chosen, plan)
    of_queue = "" if body.queue is None else f" of queue {body.queue}"
    words = f"retry of what was on its way{of_queue}, after a restore"
    return context.retry_again(words, (), chosen)


@router.post("/retry/preview", status_code=200, name="preview_retry_recovered")
def preview_retry_recovered(body: ResendRequest, parts: Parts) -> Answer[ArchivePreview]:
    """Count what the same request would send again."""
    return told(_look(parts, _under_way(parts), body.queue))


def _look(parts: ApiParts, found: Recovery, queue: str | None) -> ArchivePreview:
    now, chosen = time_before(parts.db, timedelta(0)), recovered_retries(found, queue)
    return archive_preview(parts.gateway.archives.plan(Act.RELEASE, chosen, now, *_times(found)))


def _times(found: Recovery) -> tuple[str, str]:
    """Return which recovery it is: the plan of another one is about other times."""
    return found.sent_from.isoformat(), found.begun_at.isoformat()


def _under_way(parts: ApiParts) -> Recovery:
    found = get_recovery(parts.db)
    if found is None:
        raise HTTPException(409, RecoveryRefusal.NONE.value)
    return found
