"""Archive, unarchive, resolve, declare dead and revive: by id, of groups, and as operations."""

from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Annotated

from fastapi import Request
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

from retrier.api import messages as views
from retrier.api.answers import (
    Answer,
    Refusal,
    Routes,
    accepted,
    answer,
    present,
    problem,
    time,
    told,
)
from retrier.api.parts import ApiParts, Parts
from retrier.api.places import Followed, followed, read_id, read_time
from retrier.api.requests import (
    WITHOUT_NUL,
    IdsQuery,
    InContext,
    Line,
    NamedIds,
    RequestContext,
    WellNamedIds,
    read_range,
)
from retrier.api.selections import (
    PlanText,
    SelectionBody,
    named_plan,
    refuse_plan,
    understand,
)
from retrier.api.shapes import OnlyId, ReasonCount
from retrier.api.shapes import operations as shapes
from retrier.api.shapes.messages import FailedMessage, OperationOfGroup, OperationStatus
from retrier.api.shapes.operations import AskedRetry
from retrier.archives import UndoRefusal
from retrier.domain.archive_operation import (
    NOTHING_TO_DO,
    Act,
    ActRefusal,
    ArchiveOperation,
    ArchiveOperationState,
    ArchiveRequest,
    parts_to_store,
)
from retrier.domain.retry_operation import OF_ANOTHER, RetryType, as_counted, hash_subject
from retrier.domain.selection import BOUNDS, Selection, describe
from retrier.domain.text import count_messages
from retrier.policy.reasons import find_named, why_not_a_reason
from retrier.store.archive_lists import (
    PlannedAct,
    find_archive_operation,
    find_refused,
    list_archive_operations,
)
from retrier.store.groups import find_title
from retrier.store.message_details import find_listed
from retrier.store.pending import time_before


def outcome(found: ArchiveOperation) -> shapes.ArchiveOutcome:
    """Show how many messages changed so far, why others did not, and the operation."""
    return {
        **_changed(found),
        "skipped": _reasons(found.skipped_because),
        "operation_id": found.operation_id,
        "state": found.state,
        "total": found.total,
    }


def _changed(found: ArchiveOperation) -> shapes.ChangedMessages:
    match found.act:
        case Act.ARCHIVE:
            return {"archived": found.done}
        case Act.UNARCHIVE:
            return {"unarchived": found.done}
        case Act.RESOLVE | Act.RELEASE:
            # Nobody asks for a release as an operation: it is a part of a retry.
            return {"resolved": found.done}


def archive_operation(shown: ArchiveOperation, parts: ApiParts) -> shapes.ArchiveOperation:
    """Show an operation: what was asked for, by whom, and how far it is; `parts` know who asks."""
    view: shapes.ArchiveOperation = {
        "id": shown.operation_id,
        "act": shown.act,
        "originator": shown.originator,
        "requested_by": shown.requested_by,
        "why": shown.why,
        "selection": _selection(shown, parts),
        "state": shown.state,
        "reason": shown.reason,
        "total": shown.total,
        "done": shown.done,
        "skipped": shown.skipped,
        "skipped_because": _reasons(shown.skipped_because),
        "remaining": shown.remaining,
        "undo_of": shown.undo_of,
        "created_at": time(shown.created_at),
        "started_at": time(shown.started_at),
        "completed_at": time(shown.completed_at),
        "acknowledged_at": time(shown.acknowledged_at),
        "modified_at": time(shown.modified_at),
    }
    return present(view)


def archive_details(
    shown: ArchiveOperation, refused: Mapping[str, str], parts: ApiParts
) -> shapes.ArchiveOperationDetails:
    """Show an operation, and why named ids were left as they were."""
    return {
        **archive_operation(shown, parts),
        "skipped_messages": [{"id": key, "reason": why} for key, why in refused.items()],
    }


def archive_preview(found: PlannedAct) -> shapes.ArchivePreview:
    """Show what an act would change, why it would leave the rest as it is, and the plan to name."""
    counted = found.preview
    skipped = _reasons(counted.skipped_because)
    return {"total": counted.total, "skipped": skipped, "plan": found.plan.token}


_STATUSES: Mapping[ArchiveOperationState, OperationStatus] = {
    ArchiveOperationState.WAITING: "ArchiveStarted",
    ArchiveOperationState.RUNNING: "ArchiveProgressing",
    ArchiveOperationState.COMPLETED: "ArchiveCompleted",
}


def archive_of_group(shown: ArchiveOperation) -> OperationOfGroup:
    """Show the archive of a group as ServiceControl does."""
    settled = shown.total - shown.remaining
    completed = shown.state is ArchiveOperationState.COMPLETED
    view: OperationOfGroup = {
        "operation_id": shown.operation_id,
        "operation_status": _STATUSES[shown.state],
        "operation_progress": round(settled / shown.total, 2) if shown.total else 1.0,
        "operation_remaining_count": shown.remaining,
        "operation_messages_completed_count": settled,
        "operation_start_time": time(shown.started_at),
        "operation_completion_time": time(shown.completed_at),
        "need_user_acknowledgement": completed,
    }
    return present(view)


def _reasons(because: Mapping[str, int]) -> list[ReasonCount]:
    return [{"reason": reason, "count": count} for reason, count in sorted(because.items())]


def _selection(shown: ArchiveOperation, parts: ApiParts) -> Mapping[str, object]:
    """Show a selection. Of ids only the number is shown: a list can have 100,000."""
    named = {} if shown.selection.ids is None else {"ids": shown.total}
    chosen = parts.conditions(parts_to_store(shown.selection))
    return {**named, **{name: part for name, part in chosen.items() if name not in BOUNDS}}


def act_on_one(
    context: RequestContext, act: Act, unique_id: str
) -> Answer[shapes.ArchiveOutcome] | Refusal:
    """Answer 202, also if the act was done before; 404 or 409 with the reason if it is refused.

    Raises KeyReused.
    """
    words = f"{act} of message {unique_id}"
    request = context.archive_request(act, Selection(ids=(unique_id,)), words)
    found = context.gateway.archives.ask(request).operation
    for reason in map(ActRefusal, found.skipped_because):
        if reason is ActRefusal.UNKNOWN:
            return problem(404, f"No failed message has the id {unique_id[:100]}.")
        if (act, reason) not in NOTHING_TO_DO:
            return problem(409, f"The message cannot be changed now: {reason}.")
    return answer_with(found)


def act_on_ids(
    context: RequestContext, act: Act, unique_ids: tuple[str, ...]
) -> Answer[shapes.ArchiveOutcome]:
    """Answer 202 with how many were changed and why the others were not, or that it goes on.

    Raises KeyReused.
    """
    words = f"{act} of {count_messages(len(unique_ids))}"
    return answer_to(context, context.archive_request(act, Selection(ids=unique_ids), words))


def act_on(
    context: RequestContext, act: Act, selection: Selection, words: str
) -> Answer[shapes.ArchiveOutcome]:
    """Do the same for a selection; `words` say what that is. Raises as `act_on_ids`."""
    request = context.archive_request(act, selection, f"{act} of {words}")
    return answer_to(context, request)


def answer_to(context: RequestContext, request: ArchiveRequest) -> Answer[shapes.ArchiveOutcome]:
    """Ask the gateway; answer 202 with the operation. Raises KeyReused."""
    return answer_with(context.gateway.archives.ask(request).operation)


def answer_with(found: ArchiveOperation) -> Answer[shapes.ArchiveOutcome]:
    """Answer 202 with an operation that was asked for."""
    return accepted(outcome(found), f"/api/archive_operations/{found.operation_id}")


router = Routes(prefix="/api", tags=["archive"])

_GROUP = "/recoverability/groups/{group_id}/errors"


@router.patch("/errors/archive", status_code=202)
@router.post("/errors/archive", status_code=202, name="archive_messages_by_post")
def archive_messages(ids: WellNamedIds, context: InContext) -> Answer[shapes.ArchiveOutcome]:
    """Archive the messages with these ids."""
    return act_on_ids(context, Act.ARCHIVE, ids)


@router.patch("/errors/unarchive", status_code=202)
def unarchive_messages(ids: NamedIds, context: InContext) -> Answer[shapes.ArchiveOutcome]:
    """Unarchive the messages with these ids."""
    return act_on_ids(context, Act.UNARCHIVE, ids)


@router.patch("/errors/{first}...{last}/unarchive", status_code=202)
def unarchive_range(first: str, last: str, context: InContext) -> Answer[shapes.ArchiveOutcome]:
    """Unarchive the archived messages whose last change lies between these times."""
    modified = read_range(first, last, ("path.first", "path.last"))
    words = f"what was archived from {modified[0]} to {modified[1]}"
    return act_on(context, Act.UNARCHIVE, Selection(modified=modified), words)


@router.patch("/errors/{failed_message_id}/archive", status_code=202)
@router.post("/errors/{failed_message_id}/archive", status_code=202, name="archive_message_by_post")
def archive_message(
    failed_message_id: str, context: InContext
) -> Answer[shapes.ArchiveOutcome] | Refusal:
    """Archive one message."""
    return act_on_one(context, Act.ARCHIVE, failed_message_id)


@router.post(f"{_GROUP}/archive", status_code=202)
def archive_group(group_id: str, parts: Parts, context: InContext) -> Answer[shapes.ArchiveOutcome]:
    """Archive the unresolved messages of this group."""
    return _act_on_group(context, parts, Act.ARCHIVE, group_id)


@router.post(f"{_GROUP}/unarchive", status_code=202)
def unarchive_group(
    group_id: str, parts: Parts, context: InContext
) -> Answer[shapes.ArchiveOutcome]:
    """Unarchive the archived messages of this group."""
    return _act_on_group(context, parts, Act.UNARCHIVE, group_id)


def _act_on_group(
    context: RequestContext, parts: ApiParts, act: Act, group_id: str
) -> Answer[shapes.ArchiveOutcome]:
    title = find_title(parts.db, group_id) or group_id
    return act_on(context, act, Selection(group=group_id), f"group {title}")


operations_router = Routes(prefix="/api", tags=["archive operations"])

LONGEST_WHY = 1000
WhyArchived = Annotated[str, Field(max_length=LONGEST_WHY), WITHOUT_NUL] | None


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
    why: WhyArchived = None
    plan: PlanText | None = None


class UndoBody(BaseModel):
    """Why they are taken back."""

    model_config = ConfigDict(extra="forbid")

    why: WhyArchived = None


@operations_router.post("/archive_operations", status_code=202)
def create_archive_operation(
    body: ArchiveBody, parts: Parts, context: InContext
) -> Answer[shapes.ArchiveOutcome] | Refusal:
    """Archive, unarchive or resolve the messages of a selection, or what its preview counted."""
    act, selection = Act(body.act), understand(body.selection, parts)
    words, plan = f"{act} of {describe(selection)}", named_plan(body.plan)
    if plan is not None:
        if plan.subject != hash_subject(act, selection):
            return refuse_plan(OF_ANOTHER, _look(parts, act, selection))
        selection = as_counted(selection, plan)
    return answer_to(context, context.archive_request(act, selection, words, body.why))


@operations_router.post("/archive_operations/preview", status_code=200)
def preview_archive_operation(body: ArchiveBody, parts: Parts) -> Answer[shapes.ArchivePreview]:
    """Count what the same request would change, and what it would leave as it is."""
    return told(_look(parts, Act(body.act), understand(body.selection, parts)))


def _look(parts: ApiParts, act: Act, selection: Selection) -> shapes.ArchivePreview:
    return archive_preview(
        parts.gateway.archives.plan(act, selection, time_before(parts.db, timedelta(0)))
    )


ArchivesPage = Annotated[Followed, followed("archive_operations", read_time, read_id)]


@operations_router.get("/archive_operations")
def get_archive_operations(
    request: Request, parts: Parts, page: ArchivesPage, ids: IdsQuery
) -> Answer[list[shapes.ArchiveOperation]]:
    """List all archive operations, newest first."""
    found = list_archive_operations(parts.db, page.wanted, ids)
    items = [archive_operation(each, parts) for each in found.items]
    return answer(request, items, page.headers(request, found))


@operations_router.get("/archive_operations/{archive_operation_id}")
def get_archive_operation(
    request: Request, archive_operation_id: str, parts: Parts
) -> Answer[shapes.ArchiveOperationDetails] | Refusal:
    """Return one archive operation, with the reason for each named id that was left as it was."""
    found = find_archive_operation(parts.db, archive_operation_id)
    if found is None:
        return problem(404, f"No archive operation has the id {archive_operation_id[:100]}.")
    refused = find_refused(parts.db, found.operation_id)
    return answer(request, archive_details(found, refused, parts))


@operations_router.post("/archive_operations/{archive_operation_id}/undo", status_code=202)
def undo_archive_operation(
    archive_operation_id: str, context: InContext, body: UndoBody | None = None
) -> Answer[shapes.ArchiveOutcome] | Refusal:
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


dead_router = Routes(prefix="/api/errors", tags=["dead messages"])

LONGEST_WHY_DEAD = 500

_LATER = (
    "Look at the message: `retrier errors show` says how it stands, and what can be done with it."
)


def _built_in(word: str) -> str:
    why_not = why_not_a_reason(word)
    if why_not is not None:
        raise PydanticCustomError("no_reason", "{why_not}", {"why_not": why_not})
    return find_named(word) or word


class Why(BaseModel):
    """Why a message is declared dead; shown with it. `reason` takes the place of its own."""

    model_config = ConfigDict(extra="forbid", strict=True)

    why: Annotated[Line, Field(min_length=1, max_length=LONGEST_WHY_DEAD)]
    reason: Annotated[str, AfterValidator(_built_in)] | None = None


@dead_router.post("/{failed_message_id}/revive", status_code=202)
def revive_message(failed_message_id: str, context: InContext) -> Answer[AskedRetry] | Refusal:
    """Retry a dead message; its failures are counted anew."""
    selection = Selection(ids=(failed_message_id,))
    words = f"revive of message {failed_message_id}"
    request = context.request(RetryType.SINGLE_MESSAGE, selection, words)
    created = context.gateway.revive(request, failed_message_id)
    if isinstance(created, ActRefusal):
        return _refused(created, failed_message_id, "revived")
    return context.accepted(created)


@dead_router.post("/{failed_message_id}/dead", status_code=200)
def declare_message_dead(
    request: Request, failed_message_id: str, body: Why, parts: Parts, context: InContext
) -> Answer[FailedMessage | OnlyId] | Refusal:
    """Declare an unresolved message dead: only a person's retry takes it from now on."""
    refusal = context.gateway.archives.declare_dead(
        failed_message_id, body.why, context.requested_by, body.reason
    )
    if refusal is not None:
        return _refused(refusal, failed_message_id, "declared dead")
    found = find_listed(parts.db, failed_message_id, parts.codec)
    # Nothing deletes an unresolved message; somebody may have acted on it since.
    return answer(request, {"id": failed_message_id} if found is None else views.item(found))


def _refused(refusal: ActRefusal, unique_id: str, done: str) -> Refusal:
    if refusal is ActRefusal.UNKNOWN:
        return problem(404, f"No failed message has the id {unique_id[:100]}.")
    return problem(409, f"The message cannot be {done}: {refusal}.", advice=_LATER)
