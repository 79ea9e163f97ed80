"""Failed messages: lists, one message, counts."""

import re
from dataclasses import replace
from functools import partial

from fastapi import APIRouter, Request, Response

from retrier.api.answers import HEADERS, answer, present, revalidated
from retrier.api.filters import (
    MessagesPage,
    OrderQuery,
    PageQuery,
    Wanted,
    list_headers,
    page_headers,
)
from retrier.api.parts import ApiParts, Parts
from retrier.api.problems import problem
from retrier.api.request_context import NamedIds
from retrier.api.views import messages as views
from retrier.domain.waiting import tell_reasons
from retrier.store.queries.details import MessageBody, find_body, find_listed, find_message
from retrier.store.queries.imports import find_send
from retrier.store.queries.message_ids import find_ids
from retrier.store.queries.message_waits import find_waits
from retrier.store.queries.messages import list_messages
from retrier.store.queries.queues import list_queues, summarise

router = APIRouter(prefix="/api", tags=["failed messages"])

_IMPORT = "It is that of a failed import: see `retrier imports show ID`, or GET /api/imports/{id}."


@router.head("/errors")
@router.get("/errors")
def get_errors(
    request: Request, parts: Parts, wanted: Wanted, order: OrderQuery, page: MessagesPage
) -> Response:
    """List failed messages."""
    found = list_messages(parts.db, wanted, order, page, parts.codec)
    items = views.listed(parts.db, found.items)
    return answer(request, items, list_headers(request, page, order, found))


@router.get("/endpoints/{name:path}/errors")
def get_errors_of_endpoint(
    request: Request, name: str, parts: Parts, wanted: Wanted, order: OrderQuery, page: MessagesPage
) -> Response:
    """List the failed messages of one endpoint."""
    of_endpoint = replace(wanted, endpoint=name)
    found = list_messages(parts.db, of_endpoint, order, page, parts.codec)
    items = views.listed(parts.db, found.items)
    return answer(request, items, list_headers(request, page, order, found))


@router.get("/errors/summary")
def get_summary(request: Request, parts: Parts) -> Response:
    """Count unresolved messages by endpoint, host, type and disposition."""
    summary = parts.cache.get("summary", partial(summarise, parts.db))
    counts = {
        "Endpoints": summary.endpoints,
        "Hosts": summary.hosts,
        "Message types": summary.message_types,
        "Dispositions": summary.dispositions,
    }
    return answer(request, counts)


@router.get("/errors/queues/addresses")
def get_queue_addresses(request: Request, parts: Parts, page: PageQuery) -> Response:
    """List the queues on which messages failed, with the number of messages in any status."""
    found = list_queues(parts.db, page)
    items = [
        {"physical_address": each.queue, "failed_message_count": each.count} for each in found.items
    ]
    return answer(request, items, page_headers(request, page, found.total))


@router.post("/errors/ids")
def find_message_ids(request: Request, ids: NamedIds, parts: Parts) -> Response:
    """Return for each text the ids of the messages that have it as their id or message id."""
    return answer(request, find_ids(parts.db, ids))


@router.get("/errors/last/{failed_message_id}")
def get_last_attempt(request: Request, failed_message_id: str, parts: Parts) -> Response:
    """Return one message as lists show it, with its last failure."""
    found = find_listed(parts.db, failed_message_id, parts.codec)
    if found is None:
        return _unknown(parts, failed_message_id)
    return answer(request, views.listed(parts.db, [found])[0])


@router.get("/errors/{failed_message_id}")
def get_error(request: Request, failed_message_id: str, parts: Parts) -> Response:
    """Return one message with headers, attempts, groups and claim."""
    found = find_message(parts.db, failed_message_id, parts.codec)
    if found is None:
        return _unknown(parts, failed_message_id)
    reasons = find_waits(parts.db, failed_message_id)
    waits = present({"waits_because": tell_reasons(reasons)})
    return answer(request, views.details(found) | waits)


def _unknown(parts: ApiParts, failed_message_id: str) -> Response:
    detail = f"No failed message has the id {failed_message_id[:100]}."
    if find_send(parts.db, failed_message_id) is None:
        return problem(404, detail)
    return problem(404, f"{detail} {_IMPORT}")


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
    """Return the sender's content type if it is valid, else a guess from the bytes."""
    if found.content_type and _MEDIA_TYPE.fullmatch(found.content_type):
        return found.content_type
    try:
        found.body.decode()
    except UnicodeDecodeError:
        return "application/octet-stream"
    return "text/plain; charset=utf-8"
