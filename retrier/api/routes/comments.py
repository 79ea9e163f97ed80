"""Comments on groups: written and deleted."""

from typing import Annotated
from urllib.parse import unquote_plus

from fastapi import APIRouter, Query, Request, Response

from retrier.api.answers import HEADERS
from retrier.api.problems import problem
from retrier.api.request_context import InContext
from retrier.domain.comments import LONGEST, CommentRefusal

router = APIRouter(prefix="/api/recoverability/groups", tags=["groups"])

_NAME = b"comment="

Comment = Annotated[str, Query(description=f"the text, at most {LONGEST:,} characters")]


@router.post("/{group_id}/comment", status_code=202, response_class=Response)
def write_comment(
    request: Request, group_id: str, context: InContext, comment: Comment
) -> Response:
    """Comment on a group, in place of an earlier comment."""
    text = _whole(request) or comment
    return _answer(context.gateway.comments.write(group_id, text, context.requested_by), group_id)


@router.delete("/{group_id}/comment", status_code=202, response_class=Response)
def delete_comment(group_id: str, context: InContext) -> Response:
    """Delete the comment of a group; without a comment nothing is done."""
    return _answer(context.gateway.comments.delete(group_id, context.requested_by), group_id)


def _whole(request: Request) -> str:
    """Return all that follows `comment=`: ServicePulse does not encode `&` and `%`."""
    query: bytes = request.scope["query_string"]
    return (
        unquote_plus(query.removeprefix(_NAME).decode("latin-1")) if query.startswith(_NAME) else ""
    )


def _answer(refusal: CommentRefusal | None, group_id: str) -> Response:
    match refusal:
        case None:
            return Response(status_code=202, headers=HEADERS)
        case CommentRefusal.UNKNOWN:
            return problem(404, f"No group has the id {group_id[:100]}.")
        case CommentRefusal.EMPTY | CommentRefusal.TOO_LONG:
            errors = [{"field": "query.comment", "reason": str(refusal)}]
            return problem(422, str(refusal), errors=errors)
