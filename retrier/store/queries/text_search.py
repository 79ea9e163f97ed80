"""Messages with a text: in their causes, or as their id."""

from sqlalchemy import ColumnElement, Select, or_, select

from retrier.domain.identity import canonical, is_guid
from retrier.store.schema import causes, failed_messages

messages = failed_messages.c


def holds(wanted: str) -> ColumnElement[bool]:
    """Return the condition that a text is in the ids, types or exceptions of a message."""
    return is_named(wanted, messages.cause_id.in_(causes_with(wanted)))


def is_named(wanted: str, of_cause: ColumnElement[bool]) -> ColumnElement[bool]:
    """Return the condition that a message is of these causes, or has exactly this id."""
    named = or_(of_cause, messages.message_id == wanted)
    if is_guid(wanted):
        named = or_(named, messages.unique_message_id == canonical(wanted))
    return named


def causes_with(wanted: str) -> Select[tuple[int]]:
    """Return the query for the causes with this text, in any case."""
    shown = (
        causes.c.message_type,
        causes.c.exception_type,
        causes.c.exception_message,
        causes.c.failure_reason,
        causes.c.queue,
        causes.c.endpoint,
    )
    holding = or_(*(column.icontains(wanted, autoescape=True) for column in shown))
    return select(causes.c.cause_id).where(holding)
