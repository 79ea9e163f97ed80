"""Archive operations: acts on many messages: asked for, looked at, undone."""

from datetime import timedelta
from enum import StrEnum
from typing import Annotated

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from retrier.api.acts import answer_to, answer_with
from retrier.api.answers import Json, answer, told
from retrier.api.filters import IdsQuery, PageQuery, page_headers
from retrier.api.parts import ApiParts, Parts
from retrier.api.plans import PlanText, named_plan, refuse_plan
from retrier.api.problems import problem
from retrier.api.request_context import InContext
from retrier.api.selections import SelectionBody
from retrier.api.views.archives import archive_details, archive_operation, archive_preview
from retrier.archives import UndoRefusal
from retrier.domain.archive_operation import Act
from retrier.domain.retry_operation import OF_ANOTHER, as_counted, hash_subject
from retrier.domain.selection import Selection, describe
from retrier.store.queries.archive_operations import (
    find_archive_operation,
    find_refused,
    list_archive_operations,
)
from retrier.store.queries.archive_previews import plan_act
from retrier.store.queries.pending import time_before

router = APIRouter(prefix="/api", tags=["archive operations"])

LONGEST_WHY = 1000
Why = Annotated[str | None, Field(max_length=LONGEST_WHY)]


class WhatToDo(StrEnum):
    """What can be done to many messages as one operation."""

    ARCHIVE = "archive"
    UNARCHIVE = "unarchive"
    RESOLVE = "resolve"


class ArchiveBody(BaseModel):
    """What is to be done to which messages, and why."""

    model_config = ConfigDict(extra="forbid")

    act: WhatToDo
    selection: SelectionBody
    why: Why = None
    plan: PlanText | None = None


class UndoBody(BaseModel):
    """Why they are taken back."""

    model_config = ConfigDict(extra="forbid")

    why: Why = None


@router.post("/archive_operations", status_code=202)
def create_archive_operation(body: ArchiveBody, parts: Parts, context: InContext) -> Response:
    """Archive, unarchive or resolve the messages of a selection, or what its preview counted."""
    act, selection = Act(body.act), body.selection.to_selection()
    words, plan = f"{act} of {describe(selection)}", named_plan(body.plan)
    if plan is not None:
        if plan.subject != hash_subject(act, selection):
            return refuse_plan(OF_ANOTHER, _look(parts, act, selection))
        selection = as_counted(selection, plan)
    return answer_to(context, context.archive_request(act, selection, words, body.why))


@router.post("/archive_operations/preview", status_code=200)
def preview_archive_operation(body: ArchiveBody, parts: Parts) -> Response:
    """Count what the same request would change, and what it would leave as it is."""
    return told(_look(parts, Act(body.act), body.selection.to_selection()))


def _look(parts: ApiParts, act: Act, selection: Selection) -> Json:
    return archive_preview(plan_act(parts.db, act, selection, time_before(parts.db, timedelta(0))))


@router.get("/archive_operations")
def get_archive_operations(
    request: Request, parts: Parts, page: PageQuery, ids: IdsQuery
) -> Response:
    """List all archive operations, newest first."""
    found = list_archive_operations(parts.db, page, ids)
    items = [archive_operation(each) for each in found.items]
    return answer(request, items, page_headers(request, page, found.total))


@router.get("/archive_operations/{archive_operation_id}")
def get_archive_operation(request: Request, archive_operation_id: str, parts: Parts) -> Response:
    """Return one archive operation, with the reason for each named id that was left as it was."""
    found = find_archive_operation(parts.db, archive_operation_id)
    if found is None:
        return problem(404, f"No archive operation has the id {archive_operation_id[:100]}.")
    refused = find_refused(parts.db, found.operation_id)
    return answer(request, archive_details(found, refused))


@router.post("/archive_operations/{archive_operation_id}/undo", status_code=202)
def undo_archive_operation(
    archive_operation_id: str, context: InContext, body: UndoBody | None = None
) -> Response:
    """Unarchive what is still archived by this operation; this is an operation itself."""
    words, why = f"undo of {archive_operation_id[:100]}", None if body is None else body.why
    match context.gateway.archives.undo(
        archive_operation_id,
        lambda still: context.archive_request(Act.UNARCHIVE, still, words, why),
    ):
        case UndoRefusal.UNKNOWN:
            return problem(404, f"No archive operation has the id {archive_operation_id[:100]}.")
        case UndoRefusal.NO_ARCHIVE as refusal:
            return problem(409, f"It cannot be undone: {refusal.value}.")
        case asked:
            return answer_with(asked.operation)
