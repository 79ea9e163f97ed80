"""Approvals: a second person approves an operation that waits for one, or refuses it."""

from typing import Annotated

from fastapi import Request
from pydantic import BaseModel, ConfigDict, Field

from retrier.api.answers import Answer, Refusal, Routes, answer, problem
from retrier.api.operations import operation_now
from retrier.api.parts import ApiParts, Parts
from retrier.api.requests import WITHOUT_NUL, InContext, RequestContext
from retrier.api.shapes import OnlyId
from retrier.api.shapes import operations as shapes
from retrier.domain.approval import FORBIDDEN, ApprovalRefusal, Decided, Verdict

router = Routes(prefix="/api/operations", tags=["operations"])

_DIGITS = 64


class ApprovalBody(BaseModel):
    """What may be said with a verdict: the `plan_hash` of the operation that was looked at."""

    model_config = ConfigDict(extra="forbid")

    plan_hash: Annotated[str, Field(max_length=_DIGITS), WITHOUT_NUL] | None = None


@router.post("/{operation_id}/approve", status_code=200)
def approve_operation(
    request: Request,
    operation_id: str,
    parts: Parts,
    context: InContext,
    body: ApprovalBody | None = None,
) -> Answer[shapes.OperationDetails | OnlyId] | Refusal:
    """Approve an operation that another person has asked for: it goes as any other from now on."""
    return _decide(request, operation_id, Verdict.APPROVE, parts, context, body)


@router.post("/{operation_id}/refuse", status_code=200)
def refuse_operation(
    request: Request,
    operation_id: str,
    parts: Parts,
    context: InContext,
    body: ApprovalBody | None = None,
) -> Answer[shapes.OperationDetails | OnlyId] | Refusal:
    """Refuse an operation that another person has asked for: it is cancelled, and nothing is sent."""
    return _decide(request, operation_id, Verdict.REFUSE, parts, context, body)


def _decide(
    request: Request,
    operation_id: str,
    verdict: Verdict,
    parts: ApiParts,
    context: RequestContext,
    body: ApprovalBody | None,
) -> Answer[shapes.OperationDetails | OnlyId] | Refusal:
    plan_hash = None if body is None else body.plan_hash
    came_to = context.gateway.decide(operation_id, verdict, context.requested_by, plan_hash)
    if isinstance(came_to, Decided):
        return answer(request, operation_now(parts, came_to.operation_id))
    if came_to is ApprovalRefusal.UNKNOWN:
        return problem(404, f"No operation has the id {operation_id[:100]}.")
    status = 403 if came_to in FORBIDDEN else 409
    return problem(status, f"The operation is left as it is: {came_to}.")
