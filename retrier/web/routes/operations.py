"""Retry operations: all of them, one of them, and what a person may do to it while it runs."""

from typing import Annotated

from fastapi import APIRouter, HTTPException, Query, Request, Response

from retrier.domain.retry_operation import (
    Cancel,
    Order,
    Pause,
    Resume,
    RetryOperation,
    RetryType,
    SetRate,
    SteeringRefusal,
)
from retrier.store.queries.archive_operations import find_archive_operation
from retrier.store.queries.batches import BatchDetails, find_batch
from retrier.store.queries.event_log import EventFilter, list_newest_events
from retrier.store.queries.operation_outcomes import count_outcomes
from retrier.store.queries.operations import (
    OperationDetails,
    find_operation,
    list_operations,
)
from retrier.store.queries.ordering import PageRequest
from retrier.web.forms import Form, SentForm
from retrier.web.parts import PageParts, Parts
from retrier.web.showing import see_other, show
from retrier.web.views.cancelling import cancelling
from retrier.web.views.operation_list import operation_list
from retrier.web.views.operation_page import FoundOperation, OutcomesPage, operation_page
from retrier.web.views.pages import PAGE, page_number

router = APIRouter(prefix="/operations")

_PLACE = "/operations"
_EVENTS = 12
"""Lines of the event log that the page of one operation shows, the newest ones."""

PageText = Annotated[str, Query(alias="page")]


@router.get("")
def get_operations(request: Request, parts: Parts, page: PageText = "") -> Response:
    """List the operations, newest first; the standing one and those that are open come before."""
    wanted = PageRequest(number=page_number(page), size=PAGE)
    view = operation_list(parts.counts.look(), list_operations(parts.db, wanted), wanted)
    return show(request, "operations.html", view, current=_PLACE)


@router.get("/{operation_id}")
def get_operation(request: Request, operation_id: str, parts: Parts) -> Response:
    """Show one operation."""
    found = find_operation(parts.db, operation_id)
    if found is None:
        return _find_elsewhere(parts, operation_id)
    key = found.operation.operation_id
    events = list_newest_events(parts.db, _EVENTS, EventFilter(operation_id=key))
    read = FoundOperation(details=found, batch=_batch(parts, found), events=events)
    view = operation_page(read, parts.counts.look())
    return show(request, "operation.html", view, current=_PLACE)


@router.get("/{operation_id}/outcomes")
def count_outcomes_of(request: Request, operation_id: str, parts: Parts) -> Response:
    """Show it with what became of its retries: slow if there are many, so it is asked for apart."""
    found = _found(parts, operation_id)
    key = found.operation.operation_id
    view = OutcomesPage(operation=found.operation, outcomes=count_outcomes(parts.db, [key])[key])
    return show(request, "outcomes.html", view, current=_PLACE)


@router.get("/{operation_id}/cancel")
def ask_before_cancel(request: Request, operation_id: str, parts: Parts) -> Response:
    """Say what a cancel would end, and ask for it."""
    found = _found(parts, operation_id)
    view = cancelling(found, _batch(parts, found))
    return show(request, "confirm.html", view, current=_PLACE)


@router.post("/{operation_id}/cancel")
def cancel(operation_id: str, parts: Parts, form: SentForm) -> Response:
    """Cancel it: nothing of it is sent that is not being sent already."""
    return _steer(parts, form, operation_id, Cancel(), "cancelled")


@router.post("/{operation_id}/pause")
def pause(operation_id: str, parts: Parts, form: SentForm) -> Response:
    """Pause it: its batch that is alive is finished, and no other is cut."""
    return _steer(parts, form, operation_id, Pause(), "paused")


@router.post("/{operation_id}/resume")
def resume(operation_id: str, parts: Parts, form: SentForm) -> Response:
    """Let it go on."""
    return _steer(parts, form, operation_id, Resume(), "resumed")


@router.post("/{operation_id}/rate")
def set_rate(operation_id: str, parts: Parts, form: SentForm) -> Response:
    """Limit how many messages of it are sent a second; an empty field lifts the limit."""
    rate = form.rate
    done = "unlimited" if rate is None else "limited"
    return _steer(parts, form, operation_id, SetRate(rate), done)


@router.post("/{operation_id}/acknowledge")
def acknowledge(operation_id: str, parts: Parts, form: SentForm) -> Response:
    """Take note that it is over, and with it others that were asked for in the same words."""
    shown = _found(parts, operation_id).operation
    _acknowledge(parts, shown, form.requested_by)
    return see_other(form.next("dismissed", f"{_PLACE}/{shown.operation_id}"))


def _acknowledge(parts: PageParts, shown: RetryOperation, who: str) -> None:
    group = shown.selection.group
    if shown.retry_type is RetryType.FAILURE_GROUP and group is not None:
        parts.gateway.acknowledge_group(group, who)
    else:
        parts.gateway.acknowledge_operation(shown.operation_id, who)


def _steer(parts: PageParts, form: Form, operation_id: str, order: Order, done: str) -> Response:
    came_to = parts.gateway.steer(operation_id, (order,), form.requested_by)
    if isinstance(came_to, SteeringRefusal):
        if came_to is SteeringRefusal.UNKNOWN:
            raise HTTPException(404, f"No operation has the id {operation_id[:100]}.")
        raise HTTPException(409, f"The operation is left as it is: {came_to}.")
    return see_other(form.next(done, f"{_PLACE}/{came_to.operation_id}"))


def _found(parts: PageParts, operation_id: str) -> OperationDetails:
    found = find_operation(parts.db, operation_id)
    if found is None:
        raise HTTPException(404, f"No operation has the id {operation_id[:100]}.")
    return found


def _batch(parts: PageParts, found: OperationDetails) -> BatchDetails | None:
    # The batch may have been done since the operation was read: then there is none any more.
    return None if found.batch_id is None else find_batch(parts.db, found.batch_id)


def _find_elsewhere(parts: PageParts, operation_id: str) -> Response:
    """Lead to the archive operation of this id: lines of the event log name both alike."""
    found = find_archive_operation(parts.db, operation_id)
    if found is None:
        raise HTTPException(404, f"No operation has the id {operation_id[:100]}.")
    return see_other(f"/archive_operations/{found.operation_id}")
