"""A retry of everything that is unresolved: its preview, and the request."""

from fastapi import APIRouter, Request, Response

from retrier.domain.retry_operation import RetryRequest, RetryTerms, type_of
from retrier.domain.selection import Selection
from retrier.web.forms import SentForm
from retrier.web.parts import Parts
from retrier.web.showing import see_other, show
from retrier.web.strays import IN_FULL
from retrier.web.views.previews import Asked, look_ahead

router = APIRouter(prefix="/retry")

_ALL = Selection()
_WORDS = "all unresolved messages"


@router.get("", dependencies=[IN_FULL])
def preview_retry(request: Request, parts: Parts) -> Response:
    """Show what a retry of everything would do, and the form that asks for it."""
    asked = RetryRequest(
        retry_type=type_of(_ALL), selection=_ALL, originator=_WORDS, requested_by=""
    )
    to_ask = Asked(request=asked, what="Everything that is unresolved.", post_to="/retry", back="/")
    return show(request, "retry.html", look_ahead(parts, to_ask), current="/")


@router.post("")
def retry(parts: Parts, form: SentForm) -> Response:
    """Ask for a retry of what the preview counted."""
    request = form.retry(_ALL, f"retry of {_WORDS}", RetryTerms(rate=form.rate))
    made = parts.gateway.retry(form.planned(request))
    return see_other(form.next(f"retry:{made.operation_id}"))
