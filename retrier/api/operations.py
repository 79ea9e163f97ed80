"""Operations and batches: asked for, previewed, shown, paused, resumed, cancelled, rated."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice
from types import MappingProxyType
from typing import Annotated

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, model_validator

from retrier.api.answers import (
    TOTAL_COUNT,
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
from retrier.api.messages import claim, item
from retrier.api.parts import ApiParts, Parts
from retrier.api.patches import patch_of, patch_preview, shown_patch
from retrier.api.places import Followed, followed, read_id, read_time
from retrier.api.requests import IdsQuery, InContext, RequestContext
from retrier.api.selections import AskedBody, named_plan, refuse_plan, understand
from retrier.api.shapes import OnlyId, camel
from retrier.api.shapes import operations as shapes
from retrier.domain.headers import why_not_dropped
from retrier.domain.outcomes import RetryOutcome
from retrier.domain.processor_work import find_work, wait_until
from retrier.domain.retry_operation import (
    HIGHEST_RATE,
    INEXACT,
    OF_ANOTHER,
    YEAR,
    Cancel,
    Order,
    Pause,
    Resume,
    RetryOperation,
    RetryRequest,
    SetRate,
    SteeringRefusal,
    hash_patch,
    hash_retry,
    type_of,
    within,
)
from retrier.domain.schedule import Schedule
from retrier.domain.selection import Selection, chosen_parts, describe
from retrier.domain.wait_reasons import estimate_end, why_it_waits
from retrier.http.parts import MissingQueues, closed_of, warnings_of, warnings_of_missing
from retrier.http.problems import WrongField
from retrier.store.batches import BatchCount, BatchDetails, find_batch, list_batches
from retrier.store.groups import find_title
from retrier.store.operation_lists import (
    ListedOperations,
    OperationDetails,
    find_operation,
    list_operations,
)
from retrier.store.pending import time_before
from retrier.store.previews import AGES, DEAD, OLDEST, By, Preview, PreviewLine, plan_of
from retrier.store.processor_work import LeaseState, ProcessorState, find_processor


def processor(found: ProcessorState, here: tuple[bool, str] | None) -> shapes.Processor:
    """Show the processor; `here` is what this process says of itself if it is the processor."""
    holder, queue = found.processor, found.queue
    trouble = None if here is None or here[0] else here[1]
    held = holder is not None and holder.is_held
    work = find_work(queue, is_held=held, trouble=trouble)
    view: shapes.Processor = {
        **_holder(holder),
        "stage": work.stage,
        "batch_id": work.batch_id,
        "operation_id": work.operation_id,
        "waits_for": work.waits_for,
        "why": work.why,
        "until": time(work.until),
        "here": None if here is None else {"ok": here[0], "reason": here[1]},
        "operations": [_waiting(each, found, trouble) for each in queue.operations],
    }
    return present(view)


def _holder(found: LeaseState | None) -> shapes.ProcessorLease:
    if found is None:
        return {"is_held": False}
    return {
        "is_held": found.is_held,
        "epoch": found.epoch,
        "session_id": found.session_id,
        "host": found.host,
        "pid": found.pid,
        "acquired_at": time(found.acquired_at),
        "renewed_at": time(found.renewed_at),
        "expires_at": time(found.expires_at),
        "forwarding": found.forwarding,
    }


def _waiting(
    operation: RetryOperation, found: ProcessorState, trouble: str | None
) -> shapes.WaitingOperation:
    """Show an operation that is not over, with why it is not cut, or what keeps the processor."""
    at, key = found.queue.at, operation.operation_id
    batch = next((each for each in found.queue.batches if each.operation_id == key), None)
    schedule = found.queue.schedule
    why = why_it_waits(operation, at, schedule, found.queue.obstacles)
    until = wait_until(operation, at, schedule)
    if batch is not None:
        why, until = why or batch.reason, until or batch.not_before
    view: shapes.WaitingOperation = {
        "id": key,
        "originator": operation.originator,
        "state": camel(operation.state),
        "remaining": operation.remaining,
        "batch_id": None if batch is None else batch.batch_id,
        "waits_because": why or trouble,
        "until": time(until),
    }
    return present(view)


def operation(
    shown: RetryOperation,
    parts: ApiParts,
    schedule: Schedule | None = None,
    waits_because: str | None = None,
) -> shapes.Operation:
    """Show an operation: what was asked for, by whom, and how far it is.

    Of the standing one also how much is scheduled, and when the next is due. `parts` know who asks.
    """
    planned = schedule if shown.is_standing else None
    view: shapes.Operation = {
        "id": shown.operation_id,
        "retry_type": camel(shown.retry_type),
        "originator": shown.originator,
        "requested_by": shown.requested_by,
        "why": shown.why,
        "selection": _selection(shown, parts),
        "state": camel(shown.state),
        "cancel_asked": shown.cancel_asked,
        "reason": shown.reason,
        "limit": shown.limit,
        "destination": shown.destination,
        "rate": shown.rate,
        "drop_headers": list(shown.drop_headers) or None,
        "patch_hash": None if shown.patch is None else hash_patch(shown.patch),
        "total": shown.total,
        "forwarded": shown.forwarded,
        "skipped": shown.skipped,
        "failed": shown.failed,
        "outcomes": outcomes_of(shown),
        "is_well": shown.is_well,
        "left_out": shown.left_out,
        "dead_left_out": shown.dead_left_out,
        "remaining": shown.remaining,
        "scheduled": None if planned is None else planned.scheduled,
        "next_due": None if planned is None else time(planned.next_at),
        "batches": shown.batches,
        "not_before": time(shown.not_before),
        "created_at": time(shown.created_at),
        "started_at": time(shown.started_at),
        "completed_at": time(shown.completed_at),
        "modified_at": time(shown.modified_at),
        "waits_because": waits_because,
        "approval": _approval(shown),
    }
    return present(view)


def _approval(shown: RetryOperation) -> shapes.Approval | None:
    """Show the approval by a second person, if one was asked for."""
    found = shown.approval
    if found is None:
        return None
    view: shapes.Approval = {
        "state": camel(found.state),
        "plan_hash": found.plan_hash,
        "total": found.total,
        "asked_by": found.asked_by,
        "asked_at": time(found.asked_at),
        "lapses_at": time(found.lapses_at),
        "decided_at": time(found.decided_at),
        "decided_by": found.decided_by,
    }
    return present(view)


def outcomes_of(shown: RetryOperation) -> Mapping[RetryOutcome, int]:
    """Show how many of the retries that it sent have which outcome; their sum is `forwarded`."""
    return {**shown.outcomes.by_outcome, RetryOutcome.WAITING: shown.waiting}


def listed(shown: RetryOperation, found: ListedOperations, parts: ApiParts) -> shapes.Operation:
    """Show an operation of a list, with why it waits."""
    why = why_it_waits(shown, found.at, found.schedule, found.obstacles)
    return operation(shown, parts, found.schedule, why)


def details(found: OperationDetails, parts: ApiParts) -> shapes.OperationDetails:
    """Show an operation with its batch and its canary, why it waits, an estimate of its end ...

    ... and why ids were skipped. Its patch holds what bodies and headers are to hold: it is shown to
    who may read them.
    """
    shown = found.operation
    patch = shown.patch if parts.shows_content else None
    view: shapes.OperationDetails = {
        **operation(shown, parts, found.schedule),
        "patch": None if patch is None else shown_patch(patch),
        "batch_id": found.batch_id,
        "waits_because": why_it_waits(shown, found.at, found.schedule, found.obstacles)
        or found.batch_reason,
        "canary": _canary(shown, found.came_back),
        "estimated_end": time(estimate_end(shown, found.at, found.obstacles)),
        "skipped_messages": [{"id": key, "reason": why} for key, why in found.skipped.items()],
    }
    return present(view)


def _canary(shown: RetryOperation, came_back: int | None) -> shapes.RunningCanary | None:
    """Show the messages that are sent first; `sent` are at most `size` of them."""
    canary = shown.canary
    if canary is None:
        return None
    return {
        "size": canary.size,
        "wait": canary.wait.total_seconds(),
        "limit": canary.most_back,
        "state": camel(canary.state),
        "sent": min(canary.size, shown.sent),
        "came_back": came_back,
    }


def _selection(shown: RetryOperation, parts: ApiParts) -> Mapping[str, str | int]:
    """Show a selection. Of ids only the number is shown: a list can have 100,000."""
    named = {} if shown.selection.ids is None else {"ids": shown.total}
    return {**named, **parts.conditions(chosen_parts(shown.selection))}


def batch(counted: BatchCount) -> shapes.Batch:
    """Show a batch and its claims counted."""
    shown = counted.batch
    view: shapes.Batch = {
        "operation_id": shown.operation_id,
        "session_id": shown.session_id,
        "status": camel(shown.status),
        "staging_id": shown.staging_id,
        "initial_size": shown.initial_size,
        "message_count": shown.message_count,
        "stage_attempts": shown.stage_attempts,
        "not_before": time(shown.not_before),
        "reason": shown.reason,
        "created_at": time(shown.created_at),
        "modified_at": time(shown.modified_at),
        "claims": counted.claims,
        "forwarded": counted.forwarded,
        "in_doubt": counted.in_doubt,
        "is_now_forwarding": counted.is_now_forwarding,
        "id": shown.batch_id,
    }
    return present(view)


def batch_details(found: BatchDetails) -> shapes.BatchDetails:
    """Show a batch, and those of its claims that are in doubt."""
    return {
        **batch(found.counted),
        "claims_in_doubt": [claim(each) for each in found.in_doubt],
    }


_NONE_CLOSED: Mapping[str, str] = MappingProxyType({})

SHOWN_SKIPPED = 1000
"""So many skipped ids at most are shown; `skipped` counts them all."""

_AGES = [*(name for name, _ in AGES), OLDEST]


def shown_preview(
    found: Preview,
    plan: str,
    destination: str | None,
    seen: MissingQueues,
    closed: Mapping[str, str],
    patch: str | None = None,
) -> shapes.OperationPreview:
    """Show what an operation would do: counts, samples, warnings, and the plan to name."""
    to = _asked(destination, found) if destination else found.lines(By.DESTINATION)
    reasons = islice(found.reasons.items(), SHOWN_SKIPPED)
    view: shapes.OperationPreview = {
        "total": found.total,
        "would_retry": found.left,
        "skipped": [{"reason": why, "count": n} for why, n in found.skipped.items()],
        "dead_left_out": found.skipped.get(DEAD),
        "skipped_messages": [{"id": key, "reason": why} for key, why in reasons] or None,
        "groups": _lines(found.lines(By.GROUP), found.left),
        "queues": _lines(found.lines(By.QUEUE), found.left),
        "destinations": _lines(to, found.left, closed),
        "ages": _lines(sorted(found.lines(By.AGE), key=_by_age), found.left),
        "attempts": _lines(sorted(found.lines(By.ATTEMPTS), key=_by_number), found.left),
        "samples": [item(each) for each in found.samples],
        "patch": patch_preview(patch, found.patched),
        "warnings": list(_warnings(found, destination, seen, closed)),
        "plan": plan,
    }
    return present(view)


def destinations(found: Preview, destination: str | None) -> Sequence[str]:
    """Return the queues to which most of the messages would go."""
    return [destination] if destination else found.destinations


def _asked(destination: str, found: Preview) -> Sequence[PreviewLine]:
    line = PreviewLine(key=destination, name=destination, count=found.left)
    return [line] if found.left else []


def _lines(
    lines: Sequence[PreviewLine], total: int, closed: Mapping[str, str] = _NONE_CLOSED
) -> shapes.PreviewedLines:
    shown = [_line(each, closed.get(each.key)) for each in lines]
    return {"lines": shown, "others": total - sum(each.count for each in lines)}


def _line(of: PreviewLine, why_not: str | None) -> shapes.PreviewedLine:
    view: shapes.PreviewedLine = {
        "id": None if of.key == of.name else of.key,
        "name": of.name,
        "count": of.count,
        "not_sent_because": why_not,
    }
    return present(view)


def _by_age(line: PreviewLine) -> int:
    return _AGES.index(line.key)


def _by_number(line: PreviewLine) -> int:
    return int(line.key)


def _warnings(
    found: Preview, destination: str | None, seen: MissingQueues, closed: Mapping[str, str]
) -> Iterator[shapes.PreviewWarning]:
    for text in warnings_of_missing(found.counts_by_destination, seen):
        yield {"kind": "queue_missing", "text": text}
    for kind, text in warnings_of(found, seen, closed):
        # Who names the queue to send to is not redirected, and needs no other.
        if kind not in ("redirect", "destination_unknown", "destination_closed") or not destination:
            yield {"kind": kind, "text": text}


OperationsPage = Annotated[Followed, followed("operations", read_time, read_id)]

router = Routes(prefix="/api", tags=["operations"])


@router.get("/operations")
def get_operations(
    request: Request, parts: Parts, page: OperationsPage, ids: IdsQuery
) -> Answer[list[shapes.Operation]]:
    """List all operations, newest first; the one that sends what is due by policy stands before."""
    found = list_operations(parts.db, page.wanted, ids)
    items = [listed(each, found, parts) for each in found.page.items]
    return answer(request, items, page.headers(request, found.page))


@router.get("/operations/{operation_id}")
def get_operation(
    request: Request, operation_id: str, parts: Parts
) -> Answer[shapes.OperationDetails] | Refusal:
    """Return one operation, with the reason for each named id that was skipped."""
    found = find_operation(parts.db, operation_id)
    if found is None:
        return problem(404, f"No operation has the id {operation_id[:100]}.")
    return answer(request, details(found, parts))


@router.get("/batches")
def get_batches(request: Request, parts: Parts) -> Answer[list[shapes.Batch]]:
    """List every batch now alive, oldest first."""
    found = list_batches(parts.db)
    return answer(request, [batch(each) for each in found], {TOTAL_COUNT: str(len(found))})


@router.get("/batches/{batch_id}")
def get_batch(
    request: Request, batch_id: str, parts: Parts
) -> Answer[shapes.BatchDetails] | Refusal:
    """Return one batch, with the claims in doubt: perhaps sent, but not recorded as sent."""
    found = find_batch(parts.db, batch_id)
    if found is None:
        return problem(404, f"No batch alive has the id {batch_id[:100]}; a batch done is gone.")
    return answer(request, batch_details(found))


@router.get("/processor")
def get_processor(request: Request, parts: Parts) -> Answer[shapes.Processor]:
    """Return which process is the processor, what it does, and what it waits for and why."""
    found = find_processor(parts.db)
    holder = found.processor
    is_here = holder is not None and holder.is_held and holder.session_id == parts.session_id
    return answer(request, processor(found, parts.health().get("processor") if is_here else None))


requests_router = Routes(prefix="/api/operations", tags=["operations"])

_LATE: Mapping[str, object] = {
    "type": "too_late",
    "loc": ("body", "not_before"),
    "msg": "An operation begins within a year.",
}


@requests_router.post("", status_code=202, name="create_operation")
def ask(body: AskedBody, parts: Parts, context: InContext) -> Answer[shapes.AskedRetry] | Refusal:
    """Ask for a retry of what a selection matches, on these terms."""
    request = _read(body, parts, context)
    plan = named_plan(body.plan)
    if plan is None:
        return context.ask(request)
    if plan.subject != hash_retry(request):
        return refuse_plan(OF_ANOTHER, _look(request, parts))
    if plan.numbers is None:
        return refuse_plan(INEXACT, _look(request, parts))
    return context.ask(within(request, plan))


@requests_router.post("/preview", status_code=200, name="preview_operation")
def look_ahead(
    body: AskedBody, parts: Parts, context: InContext
) -> Answer[shapes.OperationPreview]:
    """Count what a retry would take and what it would leave out, and where it would go."""
    return told(_look(_read(body, parts, context), parts))


def _read(body: AskedBody, parts: ApiParts, context: RequestContext) -> RetryRequest:
    """Return what is asked for. Raises WrongField, RequestValidationError."""
    selection = understand(body.selection, parts)
    _check_destination(context, body.destination)
    _check_dropped(body.drop_headers or ())
    _check_time(parts, body.not_before)
    words = f"retry of {_name(parts, selection)}"
    request = context.request(type_of(selection), selection, words)
    patch = patch_of(body.patch, body.drop_headers)
    return replace(request, why=body.why or None, terms=replace(body.terms, patch=patch))


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


def _look(request: RetryRequest, parts: ApiParts) -> shapes.OperationPreview:
    found = parts.gateway.plan(request, parts.codec)
    destination = request.terms.destination
    # Who names a queue that takes no retries is refused before.
    closed = {} if destination else closed_of(found, parts.gateway.why_not_send_to)
    seen = parts.look_at([each for each in destinations(found, destination) if each not in closed])
    token, patch = plan_of(request, found).token, request.terms.patch
    return shown_preview(found, token, destination, seen, closed, patch)


steering_router = Routes(prefix="/api/operations", tags=["operations"])

_OVER = "Look at it with GET: what was sent is counted there. To retry the rest, ask for a new one."
_APPROVE = "Another person approves it with POST .../approve; who asked for it can cancel it."
_PAUSE = 'To stop automatic retries, pause it: PATCH {"paused": true}. It stays paused.'


_ADVICE = {SteeringRefusal.STANDING: _PAUSE, SteeringRefusal.NOT_APPROVED: _APPROVE}


class OperationChange(BaseModel):
    """What PATCH takes: `paused`, `rate` (messages a second; null lifts it), or both."""

    model_config = ConfigDict(extra="forbid")

    paused: StrictBool | None = None
    rate: Annotated[StrictInt | None, Field(ge=1, le=HIGHEST_RATE)] = None

    @model_validator(mode="after")
    def _says_something(self) -> "OperationChange":
        if self.paused is None and "rate" not in self.model_fields_set:
            raise ValueError("Name `paused` (true or false), `rate` (a number or null), or both.")
        return self

    @property
    def orders(self) -> Iterator[Order]:
        """Yield what has to be done."""
        if self.paused is not None:
            yield Pause() if self.paused else Resume()
        if "rate" in self.model_fields_set:
            yield SetRate(self.rate)


@steering_router.patch("/{operation_id}")
def change_operation(
    request: Request, operation_id: str, body: OperationChange, parts: Parts, context: InContext
) -> Answer[shapes.OperationDetails | OnlyId] | Refusal:
    """Pause an operation, let it go on, or change its rate."""
    came_to = context.gateway.steer(operation_id, tuple(body.orders), context.requested_by)
    if isinstance(came_to, SteeringRefusal):
        return _refused(came_to, operation_id)
    return answer(request, operation_now(parts, came_to.operation_id))


@steering_router.delete("/{operation_id}", status_code=202)
def cancel_operation(
    operation_id: str, parts: Parts, context: InContext
) -> Answer[shapes.OperationDetails | OnlyId] | Refusal:
    """Cancel an operation: nothing of it is sent that is not being sent already."""
    came_to = context.gateway.steer(operation_id, (Cancel(),), context.requested_by)
    if isinstance(came_to, SteeringRefusal):
        return _refused(came_to, operation_id)
    shown = operation_now(parts, came_to.operation_id)
    return accepted(shown, f"/api/operations/{came_to.operation_id}")


def operation_now(parts: ApiParts, operation_id: str) -> shapes.OperationDetails | OnlyId:
    """Show an operation as it is after an act."""
    found = find_operation(parts.db, operation_id)
    # Retention may delete one that is over at any moment.
    return {"id": operation_id} if found is None else details(found, parts)


def _refused(refusal: SteeringRefusal, operation_id: str) -> Refusal:
    if refusal is SteeringRefusal.UNKNOWN:
        return problem(404, f"No operation has the id {operation_id[:100]}.")
    advice = _ADVICE.get(refusal, _OVER)
    return problem(409, f"The operation is left as it is: {refusal}.", advice=advice)
