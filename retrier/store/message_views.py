"""Failed messages with their headers, as one who follows a single message or a conversation wants them."""

from typing import Any

from sqlalchemy import func, literal, select
from sqlalchemy.types import LargeBinary

from retrier.domain.failure_texts import Shown
from retrier.domain.message_views import read_facts
from retrier.domain.selection import Selection
from retrier.domain.values import dataclass
from retrier.domain.wire import PropertyCodec
from retrier.store.engine.database import reading
from retrier.store.engine.sql_dialect import holds_bytes
from retrier.store.engine.transaction import Transaction
from retrier.store.message_lists import (
    ListedMessage,
    Order,
    Page,
    PageRequest,
    find_narrowed,
    find_numbers,
    listed_with,
    shown_messages,
    texts_of,
)
from retrier.store.schema import failed_messages, processing_attempts

messages = failed_messages.c
attempts = processing_attempts.c


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageView:
    """A failed message, what else its newest failure was received with, and the size of its body."""

    message: ListedMessage
    texts: Shown
    body_size: int


@reading
def list_views(
    tx: Transaction, wanted: Selection, order: Order, page: PageRequest, codec: PropertyCodec
) -> Page[MessageView]:
    """Return one page of the messages that match. Raises DatabaseUnavailable."""
    return _load(tx, find_numbers(tx, wanted, order, page), codec)


LOOKED_AT = 5000
"""So many of the newest messages are looked at for those of a conversation: its id has no index."""

MOST = 500
"""So many messages of a conversation are shown, the newest."""


@reading
def list_conversation(
    tx: Transaction, conversation_id: str, order: Order, page: PageRequest, codec: PropertyCodec
) -> Page[MessageView]:
    """Return those of the newest LOOKED_AT messages that belong to a conversation.

    Raises DatabaseUnavailable.
    """
    newest = select(func.max(messages.number) - LOOKED_AT).scalar_subquery()
    wanted = literal(conversation_id.encode(), LargeBinary)
    named = (
        shown_messages()
        .where(messages.number > newest, holds_bytes(attempts.raw_properties, wanted))
        .order_by(messages.number.desc())
        .limit(MOST)
    )
    # Another header may have these bytes, too.
    numbers = [
        row["number"]
        for row in tx.execute(named).mappings()
        if read_facts(texts_of(dict(row), codec).headers).conversation_id == conversation_id
    ]
    found = find_narrowed(tx, [tx.sql.member(messages.number, numbers)], order, page)
    return _load(tx, found, codec)


def _load(tx: Transaction, found: Page[int], codec: PropertyCodec) -> Page[MessageView]:
    query = shown_messages(messages.body_size).where(tx.sql.member(messages.number, found.items))
    views = {row["number"]: _view(dict(row), codec) for row in tx.execute(query).mappings()}
    items = tuple(views[number] for number in found.items if number in views)
    return Page(items=items, total=found.total)


def _view(row: dict[str, Any], codec: PropertyCodec) -> MessageView:
    texts = texts_of(row, codec)
    return MessageView(message=listed_with(row, texts), texts=texts, body_size=row["body_size"])
