"""Message views: failed messages as those clients want them who also know messages that went well.

ServicePulse opens one message, the messages of a conversation, and its list of all messages by
these. There is no audit of what went well: only messages that failed once are found.
"""

from dataclasses import replace
from typing import Annotated

from fastapi import Depends, Query, Request

from retrier.api.answers import Answer, Routes, answer, present, time
from retrier.api.messages import receiving_endpoint, sending_endpoint
from retrier.api.parts import ApiParts, Parts
from retrier.api.requests import (
    OrderQuery,
    PageQuery,
    page_headers,
    read_page,
    read_range,
)
from retrier.api.shapes import messages as shapes
from retrier.domain.edits import header_texts
from retrier.domain.message_views import status_of_view
from retrier.domain.selection import Selection
from retrier.domain.times import NO_TIME_SPAN
from retrier.store.message_lists import Order, Page, PageRequest
from retrier.store.message_views import MessageView, list_conversation, list_views

SEARCHED = "X-Retrier-Searched"
_SEARCHED = {SEARCHED: "ids, queue, endpoint, message type, exception, reason"}
"""What a search looks into: neither headers nor bodies."""
_SEARCHED_WORDS = {SEARCHED: f"{_SEARCHED[SEARCHED]}; words: headers, stack trace, body"}
"""The same with full text, for who may read these."""


def shown_view(shown: MessageView, parts: ApiParts) -> shapes.MessageView:
    """Show a message. The times it took are not known of what failed, and are zero."""
    message, facts = shown.message, shown.message.facts
    unique_id = message.unique_message_id
    headers = header_texts(parts.headers(shown.texts.headers))
    view: shapes.MessageView = {
        "id": unique_id,
        "message_id": message.message_id or unique_id,
        # ServicePulse shows no message without a text here.
        "message_type": message.message_type or "",
        "sending_endpoint": sending_endpoint(facts),
        "receiving_endpoint": receiving_endpoint(message),
        "time_sent": time(message.time_sent),
        "processed_at": time(message.last_failure),
        "critical_time": NO_TIME_SPAN,
        "processing_time": NO_TIME_SPAN,
        "delivery_time": NO_TIME_SPAN,
        "is_system_message": facts.is_system,
        "conversation_id": facts.conversation_id,
        "headers": [{"key": name, "value": value} for name, value in headers.items()],
        "status": status_of_view(message.status, message.attempts),
        "message_intent": facts.intent,
        "body_url": f"/messages/{unique_id}/body",
        "body_size": shown.body_size,
        "instance_id": parts.configured.instance,
    }
    return present(view)


router = Routes(prefix="/api", tags=["message views"])

Text = Annotated[str, Query(description="a text that a message shows, or an id of it")]


@router.head("/messages/search/{keyword:path}")
@router.get("/messages/search/{keyword:path}")
def search_for_keyword(
    request: Request, keyword: str, parts: Parts, order: OrderQuery, page: PageQuery
) -> Answer[list[shapes.MessageView]]:
    """Find the failed messages that show a text, or have this id."""
    return _found(request, parts, Selection(text=keyword or None), order, page)


@router.head("/messages/search")
@router.get("/messages/search")
def search(
    request: Request, parts: Parts, order: OrderQuery, page: PageQuery, q: Text = ""
) -> Answer[list[shapes.MessageView]]:
    """Find the failed messages that show a text, or have this id; without a text, all."""
    return _found(request, parts, Selection(text=q or None), order, page)


@router.head("/endpoints/{name:path}/messages/search/{keyword:path}")
@router.get("/endpoints/{name:path}/messages/search/{keyword:path}")
def search_endpoint_for_keyword(
    request: Request, name: str, keyword: str, parts: Parts, order: OrderQuery, page: PageQuery
) -> Answer[list[shapes.MessageView]]:
    """Find those of one endpoint that show a text, or have this id."""
    wanted = Selection(endpoint=name, text=keyword or None)
    return _found(request, parts, wanted, order, page)


@router.head("/endpoints/{name:path}/messages/search")
@router.get("/endpoints/{name:path}/messages/search")
def search_endpoint(
    request: Request, name: str, parts: Parts, order: OrderQuery, page: PageQuery, q: Text = ""
) -> Answer[list[shapes.MessageView]]:
    """Find those of one endpoint that show a text, or have this id; without a text, all."""
    return _found(request, parts, Selection(endpoint=name, text=q or None), order, page)


@router.head("/endpoints/{name:path}/messages")
@router.get("/endpoints/{name:path}/messages")
def get_messages_of_endpoint(
    request: Request, name: str, parts: Parts, order: OrderQuery, page: PageQuery
) -> Answer[list[shapes.MessageView]]:
    """List the failed messages of one endpoint, in any status."""
    return _found(request, parts, Selection(endpoint=name), order, page)


@router.head("/messages")
@router.get("/messages")
def get_messages(
    request: Request, parts: Parts, order: OrderQuery, page: PageQuery
) -> Answer[list[shapes.MessageView]]:
    """List all failed messages, in any status."""
    return _found(request, parts, Selection(), order, page)


def _sent(
    page: PageQuery,
    q: Text = "",
    endpoint_name: str = "",
    first: Annotated[str, Query(alias="from", description="sent then or later")] = "",
    last: Annotated[str, Query(alias="to", description="sent then or before")] = "",
    page_size: Annotated[str, Query(description="the same as per_page")] = "",
) -> tuple[Selection, PageRequest]:
    wanted = Selection(endpoint=endpoint_name or None, text=q or None)
    if first or last:
        ends = (first or _SINCE_EVER, last or _FOR_EVER)
        wanted = replace(wanted, sent_in=read_range(*ends, ("query.from", "query.to")))
    return wanted, replace(page, size=read_page("", page_size, page.size).size)


_SINCE_EVER, _FOR_EVER = "0001-01-01", "9999-12-31"

SentQuery = Annotated[tuple[Selection, PageRequest], Depends(_sent)]


@router.head("/messages2")
@router.get("/messages2")
def get_messages_sent(
    request: Request, parts: Parts, asked: SentQuery, order: OrderQuery
) -> Answer[list[shapes.MessageView]]:
    """List failed messages by endpoint, text and the time when they were sent."""
    wanted, page = asked
    return _found(request, parts, wanted, order, page)


@router.head("/conversations/{conversation_id:path}")
@router.get("/conversations/{conversation_id:path}")
def get_conversation(
    request: Request, conversation_id: str, parts: Parts, order: OrderQuery, page: PageQuery
) -> Answer[list[shapes.MessageView]]:
    """List the failed messages of a conversation, among the newest ones."""
    found = list_conversation(parts.db, conversation_id, order, page, parts.codec)
    return _answer(request, parts, found, page)


def _found(
    request: Request, parts: ApiParts, wanted: Selection, order: Order, page: PageRequest
) -> Answer[list[shapes.MessageView]]:
    text = wanted.text
    if text is not None and parts.finds_words:
        wanted = replace(wanted, text=None, anywhere=text)
    found = list_views(parts.db, wanted, order, page, parts.codec)
    searched = _SEARCHED_WORDS if wanted.anywhere is not None else _SEARCHED
    return _answer(request, parts, found, page, {} if text is None else searched)


def _answer(
    request: Request,
    parts: ApiParts,
    found: Page[MessageView],
    page: PageRequest,
    more: dict[str, str] | None = None,
) -> Answer[list[shapes.MessageView]]:
    items = [shown_view(each, parts) for each in found.items]
    return answer(request, items, page_headers(request, page, found.total) | (more or {}))
