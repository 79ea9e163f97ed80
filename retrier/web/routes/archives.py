"""Archive operations: all of them, one of them, and undo."""

from typing import Annotated

from fastapi import APIRouter, HTTPException, Query, Request, Response

from retrier.archives import UndoRefusal
from retrier.domain.archive_operation import Act
from retrier.store.queries.archive_operations import (
    find_archive_operation,
    find_refused,
    list_archive_operations,
)
from retrier.store.queries.event_log import EventFilter, list_newest_events
from retrier.store.queries.ordering import PageRequest
from retrier.web.forms import SentForm
from retrier.web.parts import Parts
from retrier.web.showing import see_other, show
from retrier.web.views.archives import ArchiveList, archive_line, archive_page
from retrier.web.views.event_lines import event_lines
from retrier.web.views.pages import PAGE, Listing, page_number

router = APIRouter(prefix="/archive_operations")

_EVENTS = 12
"""Lines of the event log that the page of one operation shows, the newest ones."""


@router.get("")
def get_archive_operations(
    request: Request, parts: Parts, page: Annotated[str, Query()] = ""
) -> Response:
    """List the archive operations, newest first."""
    number = page_number(page)
    found = list_archive_operations(parts.db, PageRequest(number=number, size=PAGE))
    listing = Listing(
        rows=[archive_line(each) for each in found.items],
        total=found.total,
        number=number,
        path="/archive_operations",
        values={},
    )
    return show(
        request, "archive_operations.html", ArchiveList(listing=listing), current="/operations"
    )


@router.get("/{operation_id}")
def get_archive_operation(request: Request, operation_id: str, parts: Parts) -> Response:
    """Show one archive operation."""
    found = find_archive_operation(parts.db, operation_id)
    if found is None:
        raise HTTPException(404, f"No archive operation has the id {operation_id[:100]}.")
    key = found.operation_id
    events = list_newest_events(parts.db, _EVENTS, EventFilter(operation_id=key))
    view = archive_page(found, find_refused(parts.db, key), event_lines(events))
    return show(request, "archive_operation.html", view, current="/operations")


@router.post("/{operation_id}/undo")
def undo(operation_id: str, parts: Parts, form: SentForm) -> Response:
    """Unarchive what is still archived by an operation."""
    words = f"undo of {operation_id[:100]}"
    match parts.gateway.archives.undo(
        operation_id, lambda still: form.archive(Act.UNARCHIVE, still, words)
    ):
        case UndoRefusal.UNKNOWN as refusal:
            raise HTTPException(404, refusal.value)
        case UndoRefusal.NO_ARCHIVE as refusal:
            raise HTTPException(409, f"It cannot be undone: {refusal.value}")
        case done:
            return see_other(form.next(f"archive:{done.operation.operation_id}"))
