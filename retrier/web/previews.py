"""What a person sees before a retry of many, or of everything that is unresolved."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fastapi import APIRouter, Request, Response

from retrier.domain.retry_operation import RetryRequest, RetryTerms, type_of
from retrier.domain.selection import Selection
from retrier.http.parts import warnings_of
from retrier.store.previews import By, plan_of, preview
from retrier.store.selections import take_cut_off
from retrier.web.forms import SentForm
from retrier.web.page import IN_FULL, see_other, show
from retrier.web.parts import PageParts, Parts


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """A queue to which retries would go, and how many of them."""

    queue: str
    count: int
    is_missing: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPreview:
    """The form that asks for a retry, with what it would do. `post_to` is its address.

    `what` names the selection. `fields` are hidden fields that name it for the service. `plan`
    bounds the retry: nothing is sent that was not counted here. With `asks_where`, it can be sent
    to another queue.
    """

    what: str
    post_to: str
    back: str
    plan: str
    count: int
    destinations: Sequence[Destination]
    others: int
    skipped: Mapping[str, int]
    warnings: Sequence[str]
    fields: Mapping[str, str] = field(default_factory=dict)
    asks_where: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether nothing would be sent."""
        return self.count == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is to be previewed: the request, what it is in words, and the addresses of its form."""

    request: RetryRequest
    what: str
    post_to: str
    back: str
    fields: Mapping[str, str] = field(default_factory=dict)
    asks_where: bool = False


def look_ahead(parts: PageParts, asked: Asked) -> RetryPreview:
    """Count what a retry would do as things are."""
    request = asked.request
    found = preview(parts.db, request, take_cut_off(parts.db), parts.codec)
    lines = found.lines(By.DESTINATION)
    seen = parts.look_at([each.key for each in lines])
    return RetryPreview(
        what=asked.what,
        post_to=asked.post_to,
        back=asked.back,
        plan=plan_of(request, found).token,
        count=found.left,
        destinations=[
            Destination(queue=each.key, count=each.count, is_missing=each.key in seen.missing)
            for each in lines
        ],
        others=found.left - sum(each.count for each in lines),
        skipped=found.skipped,
        warnings=[text for _, text in warnings_of(found, seen)],
        fields=asked.fields,
        asks_where=asked.asks_where,
    )


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
