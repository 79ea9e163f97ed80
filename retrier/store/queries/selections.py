"""A selection as SQL: which rows of failed_messages it means."""

from collections.abc import Mapping
from dataclasses import asdict

from sqlalchemy import ColumnElement, select

from retrier.domain.selection import Selection
from retrier.store.schema import failed_message_groups, failed_messages

messages = failed_messages.c


def where(selection: Selection) -> list[ColumnElement[bool]]:
    """Return the conditions of everything but ids, to be joined by *and*."""
    conditions: list[ColumnElement[bool]] = []
    if selection.group is not None:
        members = select(failed_message_groups.c.unique_message_id).where(
            failed_message_groups.c.group_id == selection.group
        )
        conditions.append(messages.unique_message_id.in_(members))
    for column, value in (
        (messages.queue, selection.queue),
        (messages.endpoint, selection.endpoint),
        (messages.exception_type, selection.exception_type),
        (messages.message_type, selection.message_type),
    ):
        if value is not None:
            conditions.append(column == value)
    return conditions


def to_json(selection: Selection) -> dict[str, object]:
    """Return what the operation's row keeps; ids have rows of their own."""
    parts = {name: value for name, value in asdict(selection).items() if value is not None}
    if selection.ids is not None:
        parts["ids"] = len(selection.ids)
    return parts


def from_json(parts: Mapping[str, object]) -> Selection:
    """Return the selection of an operation's row; its ids stay in their rows."""
    texts = {name: str(value) for name, value in parts.items() if name != "ids"}
    return Selection(ids=() if "ids" in parts else None, **texts)
