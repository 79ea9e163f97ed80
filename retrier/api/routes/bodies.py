"""Bodies of failed messages: hostile input, handed out to be saved and never to be rendered."""

import re

from fastapi import APIRouter, Request, Response

from retrier.api.answers import HEADERS, revalidated
from retrier.api.parts import Parts
from retrier.api.problems import problem
from retrier.store.queries.bodies import MessageBody, find_body

router = APIRouter(prefix="/api", tags=["failed messages"])

_MEDIA_TYPE = re.compile(r"[\w.+*-]+/[\w.+*-]+(\s*;[\x20-\x7e]*)?", re.ASCII)


@router.get("/messages/{message_id:path}/body")
def get_body(request: Request, message_id: str, parts: Parts) -> Response:
    """Return a body as it came, by unique message id or message id; 204 if it is empty."""
    found = find_body(parts.db, message_id, parts.codec)
    if found is None:
        return problem(404, f"No failed message has the id {message_id[:100]}.")
    if not found.body:
        return Response(status_code=204, headers=HEADERS)
    return revalidated(request, found.body, found.body_hash, _headers(found))


def _headers(found: MessageBody) -> dict[str, str]:
    return {
        "Content-Type": _content_type(found),
        "Content-Disposition": "attachment",
        "Content-Security-Policy": "sandbox; default-src 'none'",
    }


def _content_type(found: MessageBody) -> str:
    """Return the sender's content type if it is one; a guess serves where it gave none."""
    if found.content_type and _MEDIA_TYPE.fullmatch(found.content_type):
        return found.content_type
    try:
        found.body.decode()
    except UnicodeDecodeError:
        return "application/octet-stream"
    return "text/plain; charset=utf-8"
