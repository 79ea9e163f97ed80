"""Archiving and unarchiving messages."""

from fastapi import APIRouter, Response

from retrier.api.acts import act_on, act_on_ids, act_on_one
from retrier.api.filters import read_range
from retrier.api.parts import ApiParts, Parts
from retrier.api.request_context import InContext, NamedIds, RequestContext
from retrier.domain.archive_operation import Act
from retrier.domain.selection import Selection
from retrier.store.queries.groups import find_title

router = APIRouter(prefix="/api", tags=["archive"])

_GROUP = "/recoverability/groups/{group_id}/errors"


@router.patch("/errors/archive", status_code=202)
@router.post("/errors/archive", status_code=202)
def archive_messages(ids: NamedIds, context: InContext) -> Response:
    """Archive the messages with these ids."""
    return act_on_ids(context, Act.ARCHIVE, ids)


@router.patch("/errors/unarchive", status_code=202)
def unarchive_messages(ids: NamedIds, context: InContext) -> Response:
    """Unarchive the messages with these ids."""
    return act_on_ids(context, Act.UNARCHIVE, ids)


@router.patch("/errors/{first}...{last}/unarchive", status_code=202)
def unarchive_range(first: str, last: str, context: InContext) -> Response:
    """Unarchive the archived messages whose last change lies between these times."""
    modified = read_range(first, last, ("path.first", "path.last"))
    words = f"what was archived from {modified[0]} to {modified[1]}"
    return act_on(context, Act.UNARCHIVE, Selection(modified=modified), words)


@router.patch("/errors/{failed_message_id}/archive", status_code=202)
@router.post("/errors/{failed_message_id}/archive", status_code=202)
def archive_message(failed_message_id: str, context: InContext) -> Response:
    """Archive one message."""
    return act_on_one(context, Act.ARCHIVE, failed_message_id)


@router.post(f"{_GROUP}/archive", status_code=202)
def archive_group(group_id: str, parts: Parts, context: InContext) -> Response:
    """Archive the unresolved messages of this group."""
    return _act_on_group(context, parts, Act.ARCHIVE, group_id)


@router.post(f"{_GROUP}/unarchive", status_code=202)
def unarchive_group(group_id: str, parts: Parts, context: InContext) -> Response:
    """Unarchive the archived messages of this group."""
    return _act_on_group(context, parts, Act.UNARCHIVE, group_id)


def _act_on_group(context: RequestContext, parts: ApiParts, act: Act, group_id: str) -> Response:
    title = find_title(parts.db, group_id) or group_id
    return act_on(context, act, Selection(group=group_id), f"group {title}")
