"""Messages with a text: in what they show, or as their id."""

from sqlalchemy import ColumnElement, Select, or_, select

from retrier.domain.identity import canonical, is_guid
from retrier.domain.searched_text import fold
from retrier.store.engine.code_points import contains
from retrier.store.schema import failed_messages, message_texts

messages = failed_messages.c
texts = message_texts.c


def holds(wanted: str) -> ColumnElement[bool]:
    """Return the condition that a text is in what a message shows, or is its id."""
    return is_named(wanted, messages.text_id.in_(texts_with(wanted)))


def is_named(wanted: str, has_text: ColumnElement[bool]) -> ColumnElement[bool]:
    """Return the condition that a message has one of these texts, or has exactly this id."""
    named = or_(has_text, messages.message_id == wanted)
    if is_guid(wanted):
        named = or_(named, messages.unique_message_id == canonical(wanted))
    return named


def texts_with(wanted: str) -> Select[tuple[int]]:
    """Return the query for the stored texts with this text in them, in any case."""
    return select(texts.text_id).where(contains(texts.folded, fold(wanted)))
