"""What a person sees before a retry of many, or of everything that is unresolved."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

from fastapi import APIRouter, Request, Response

from retrier.domain.access import Right
from retrier.domain.archive_operation import Act
from retrier.domain.retry_operation import RetryRequest, RetryTerms, type_of
from retrier.domain.selection import Selection
from retrier.domain.values import dataclass
from retrier.http.parts import closed_of, warnings_of, warnings_of_missing, warnings_of_unseen
from retrier.store.pending import count_next_destinations, time_before
from retrier.store.previews import By, plan_of
from retrier.web.filters import Selected
from retrier.web.forms import Form, QuestionForm, SentForm
from retrier.web.page import IN_FULL, see_other, show
from retrier.web.parts import PageParts, Parts
from retrier.web.wording import ACTS, noun, plural


def show_preview(
    request: Request,
    selection: Selection,
    *,
    what: str,
    post_to: str,
    back: str,
    fields: Mapping[str, str] | None = None,
    asks_where: bool = False,
    tried: Form | None = None,
) -> Response:
    """Show what a retry would do as things are, and the form that asks for it at `post_to`.

    `what` names the selection, and so do the hidden `fields`, for the service. The plan bounds the
    retry: nothing is sent that was not counted here. With `asks_where`, it can be sent elsewhere. `tried` is a form with a patch
    that nobody has seen applied: what it says is kept.
    """
    parts: PageParts = request.app.state.parts.of(request.state.access)
    previewed = RetryRequest(
        retry_type=type_of(selection),
        selection=selection,
        originator=what,
        requested_by="",
        terms=RetryTerms(patch=None if tried is None else tried.patch),
    )
    found = parts.gateway.plan(previewed, parts.codec)
    lines = found.lines(By.DESTINATION)
    closed = closed_of(found, parts.gateway.why_not_send_to)
    sight = parts.look_at([each for each in found.destinations if each not in closed])
    return show(
        request,
        "retry.html",
        current=f"/{post_to.split('/')[1].removeprefix('retry')}",
        what=what,
        post_to=post_to,
        back=back,
        plan=plan_of(previewed, found).token,
        count=found.left,
        destinations=lines,
        missing=sight.missing,
        closed=closed,
        others=found.left - sum(each.count for each in lines),
        skipped=found.skipped,
        warnings=[
            *warnings_of_missing(
                found.counts_by_destination, sight, marked={each.key for each in lines}
            ),
            *(text for _, text in warnings_of(found, sight, closed)),
        ],
        fields=fields or {},
        asks_where=asks_where,
        patched=found.patched,
        given={name: "" if tried is None else tried.exactly(name) for name in _KEPT},
        was_tried=tried is not None,
        may_edit=parts.access.may(Right.EDIT),
    )


_KEPT = (
    *("why", "rate", "canary", "canary_wait", "canary_limit", "limit", "in", "destination"),
    *("drop_headers", "patch"),
)
"""The fields of the form that are filled again when a patch was tried."""

MOST_DESTINATIONS = 10
_MOST_LOOKED_AT = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class NextWays:
    """To which queues pending retries would go again, the fullest first; `warnings` about these."""

    destinations: Sequence[tuple[str, int]] = ()
    warnings: Sequence[str] = ()

    def others(self, total: int) -> int:
        """Return how many of them go to queues that are not named here."""
        return max(0, total - sum(n for _, n in self.destinations)) if self.destinations else 0


def next_ways(parts: PageParts, selection: Selection) -> NextWays:
    """Return where they would go, with what is to be known before."""
    found = count_next_destinations(parts.db, selection, _MOST_LOOKED_AT)
    why_not = {name: parts.gateway.why_not_send_to(name) for name, _ in found if name}
    sight = parts.look_at([name for name, why in why_not.items() if why is None])
    warnings = [
        f"{plural(count, 'message')} {noun(count, 'is', 'are')} not sent: {why}."
        for name, count in found
        if (why := why_not.get(name)) is not None
    ]
    warnings += [*warnings_of_missing(dict(found), sight), *warnings_of_unseen(sight)]
    return NextWays(destinations=found[:MOST_DESTINATIONS], warnings=warnings)


_WHAT = {
    Act.ARCHIVE: "They are set aside: no retry takes them. It can be undone "
    "until they are deleted: 10 days after this, unless the settings say otherwise.",
    Act.UNARCHIVE: "They are unresolved again.",
    Act.RESOLVE: "They count as dealt with, and are never retried. It cannot be undone.",
}
_LATER = "What fails from now on is left as it is."


def ask_before(
    parts: PageParts, act: Act, selected: Selected, back: str, post_to: str = ""
) -> QuestionForm:
    """Return the question before an act; its plan bounds the act to what was counted here."""
    planned = parts.gateway.archives.plan(
        act, selected.selection, time_before(parts.db, timedelta(0))
    )
    count = planned.preview.total
    name = f"{ACTS[act]} {plural(count, 'message')}" if count else ""
    return QuestionForm(
        title=f"{name}?" if name else "Nothing would be changed",
        what=selected.words,
        post_to=post_to or f"/messages/{act}",
        back=back,
        button=name,
        text=_WHAT[act] if name else "",
        left_out=planned.preview.skipped_because,
        notes=() if selected.selection.ids is not None else (_LATER,),
        fields=[*selected.fields.items(), ("plan", planned.plan.token)],
    )


router = APIRouter(prefix="/retry")

_ALL = Selection()
_WORDS = "all unresolved messages"
_EVERYTHING = "Everything that is unresolved."


@router.get("", dependencies=[IN_FULL])
def preview_retry(request: Request) -> Response:
    """Show what a retry of everything would do, and the form that asks for it."""
    return show_preview(request, _ALL, what=_EVERYTHING, post_to="/retry", back="/")


@router.post("")
def retry(request: Request, parts: Parts, form: SentForm) -> Response:
    """Ask for a retry of what the preview counted; or try a patch out that is new."""
    asked = form.retry(_ALL, f"retry of {_WORDS}", form.terms(parts))
    if form.is_untried(asked):
        what, back = _EVERYTHING, form.back("/")
        return show_preview(request, _ALL, what=what, post_to="/retry", back=back, tried=form)
    made = parts.gateway.retry(form.planned(asked))
    return see_other(form.next(f"retry:{made.operation_id}"))
