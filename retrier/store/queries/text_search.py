"""Messages with a text: in what they show, or as their id."""

from sqlalchemy import ColumnElement, Select, or_, select

from retrier.domain.identity import canonical, is_guid
from retrier.domain.shown import fold
from retrier.store.engine.code_points import contains
from retrier.store.schema import failed_messages, message_texts

messages = failed_messages.c
texts = message_texts.c


def holds(wanted: str) -> ColumnElement[bool]:
    """Return the condition that a text is in what a message shows, or is its id."""
    return or_(messages.text_id.in_(texts_with(wanted)), is_id(wanted))


def is_id(wanted: str) -> ColumnElement[bool]:
    """Return the condition that a text is exactly the id or the message id of a message."""
    is_message_id = messages.message_id == wanted
    if is_guid(wanted):
        return is_message_id | (messages.unique_message_id == canonical(wanted))
    return is_message_id


def texts_with(wanted: str) -> Select[tuple[int]]:
    """Return the query for the stored texts with this text in them, in any case."""
    return select(texts.text_id).where(contains(texts.folded, fold(wanted)))
