"""Approvals: what waits for a second person, and the buttons with which one decides."""

from fastapi import APIRouter, HTTPException, Request, Response

from retrier.domain.access import Right
from retrier.domain.approval import (
    FORBIDDEN,
    ApprovalRefusal,
    Decided,
    Decider,
    Verdict,
    why_not_decide,
)
from retrier.domain.retry_operation import RetryOperation, RetryType
from retrier.errors import NotAllowed
from retrier.store.approvals import MOST_LISTED
from retrier.store.operation_lists import list_asking
from retrier.web.forms import Form, SentForm
from retrier.web.operation_lines import operation_line
from retrier.web.page import see_other, show
from retrier.web.parts import PageParts, Parts
from retrier.web.wording import sentence

PATH = "/approvals"

router = APIRouter()


def why_not_own(parts: PageParts, operation_id: str) -> str | None:
    """Return why who looks may not act on an operation, by the queues of their rights; else None."""
    try:
        parts.gateway.guard.must_own_operation(operation_id)
    except NotAllowed as refusal:
        return str(refusal)
    return None


def why_not_approve(parts: PageParts, shown: RetryOperation) -> str | None:
    """Return why who looks decides nothing about an operation that waits for approval; else None."""
    not_own = why_not_own(parts, shown.operation_id)
    if not_own is not None:
        return not_own
    access, found = parts.access, shown.approval
    may_edit = access.may(Right.EDIT)
    who = Decider(identity=access.identity, shown=access.shown, may_edit=may_edit)
    of_edit = shown.retry_type is RetryType.EDIT or shown.patch is not None
    why_not = why_not_decide(found, Verdict.APPROVE, who, shown.created_at, of_edit=of_edit)
    return None if why_not is None else sentence(why_not)


@router.get(PATH)
def get_approvals(request: Request, parts: Parts) -> Response:
    """List the operations that wait for approval, those first that lapse first."""
    found, at = list_asking(parts.db)
    return show(
        request,
        "approvals.html",
        current=PATH,
        asking=found,
        lines={each.operation_id: operation_line(each, at) for each in found},
        why_not={each.operation_id: why_not_approve(parts, each) for each in found},
        most=MOST_LISTED,
    )


@router.post("/operations/{operation_id}/approve")
def approve(operation_id: str, parts: Parts, form: SentForm) -> Response:
    """Approve it: it goes as any other from now on."""
    return _decide(parts, form, operation_id, Verdict.APPROVE, "approved")


@router.post("/operations/{operation_id}/refuse")
def refuse(operation_id: str, parts: Parts, form: SentForm) -> Response:
    """Refuse it: it is cancelled, and nothing of it is sent."""
    return _decide(parts, form, operation_id, Verdict.REFUSE, "refused")


def _decide(
    parts: PageParts, form: Form, operation_id: str, verdict: Verdict, done: str
) -> Response:
    seen = form.text("plan_hash") or None
    came_to = parts.gateway.decide(operation_id, verdict, form.requested_by, seen)
    if isinstance(came_to, Decided):
        return see_other(form.next(done, f"/operations/{came_to.operation_id}"))
    if came_to is ApprovalRefusal.UNKNOWN:
        raise HTTPException(404, f"No operation has the id {operation_id[:100]}.")
    status = 403 if came_to in FORBIDDEN else 409
    raise HTTPException(status, f"The operation is left as it is: {came_to}.")
