"""Asking for exactly what is meant: POST operations, and its preview, which changes nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from fastapi import APIRouter, Response
from fastapi.exceptions import RequestValidationError

from retrier.api.answers import Json, told
from retrier.api.parts import ApiParts, Parts
from retrier.api.plans import named_plan, refuse_plan
from retrier.api.problems import WrongField
from retrier.api.request_context import InContext, RequestContext
from retrier.api.terms import YEAR, AskedBody
from retrier.api.views import previews as views
from retrier.domain.headers import why_not_dropped
from retrier.domain.retry_operation import (
    INEXACT,
    OF_ANOTHER,
    RETRY,
    RetryRequest,
    hash_subject,
    type_of,
    within,
)
from retrier.domain.selection import Selection, describe
from retrier.store.queries.groups import find_title
from retrier.store.queries.pending import time_before
from retrier.store.queries.previews import plan_of, preview
from retrier.store.queries.selections import take_cut_off

router = APIRouter(prefix="/api/operations", tags=["operations"])

_LATE: Mapping[str, object] = {
    "type": "too_late",
    "loc": ("body", "not_before"),
    "msg": "An operation begins within a year.",
}


@router.post("", status_code=202)
def ask(body: AskedBody, parts: Parts, context: InContext) -> Response:
    """Ask for a retry of what a selection matches, on these terms."""
    request = _read(body, parts, context)
    plan = named_plan(body.plan)
    if plan is None:
        return context.ask(request)
    if plan.subject != hash_subject(RETRY, request.selection):
        return refuse_plan(OF_ANOTHER, _look(request, parts))
    if plan.numbers is None:
        return refuse_plan(INEXACT, _look(request, parts))
    return context.ask(within(request, plan))


@router.post("/preview", status_code=200)
def look_ahead(body: AskedBody, parts: Parts, context: InContext) -> Response:
    """Count what a retry would take and what it would leave out, and where it would go."""
    return told(_look(_read(body, parts, context), parts))


def _read(body: AskedBody, parts: ApiParts, context: RequestContext) -> RetryRequest:
    """Return what is asked for. Raises WrongField, RequestValidationError."""
    selection = body.selection.to_selection()
    _check_destination(context, body.destination)
    _check_dropped(body.drop_headers or ())
    _check_time(parts, body.not_before)
    words = f"retry of {_name(parts, selection)}"
    request = context.request(type_of(selection), selection, words)
    return replace(request, why=body.why or None, terms=body.terms)


def _check_destination(context: RequestContext, destination: str | None) -> None:
    why_not = None if destination is None else context.gateway.why_not_send_to(destination)
    if why_not is not None:
        raise WrongField("body.destination", f"Retries cannot be sent there: {why_not}.")


def _check_dropped(patterns: Sequence[str]) -> None:
    for index, pattern in enumerate(patterns):
        why_not = why_not_dropped(pattern)
        if why_not is not None:
            raise WrongField(f"body.drop_headers.{index}", f"{pattern!r} {why_not}.")


def _check_time(parts: ApiParts, not_before: datetime | None) -> None:
    if not_before is not None and not_before > time_before(parts.db, -YEAR):
        raise RequestValidationError([_LATE])


def _name(parts: ApiParts, selection: Selection) -> str:
    """Return what is retried in words; a group alone by its title."""
    if selection != Selection(group=selection.group) or selection.group is None:
        return describe(selection)
    return f"group {find_title(parts.db, selection.group) or selection.group}"


def _look(request: RetryRequest, parts: ApiParts) -> Json:
    cut_off = take_cut_off(parts.db)
    found = preview(parts.db, request, cut_off, parts.codec)
    destination = request.terms.destination
    seen = parts.look_at(views.destinations(found, destination))
    return views.preview(found, plan_of(request, found).token, destination, seen)
