"""Values of declared fields (`message_fields`): rows of messages, and conditions on them."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from sqlalchemy import ColumnElement, Select, delete, select

from retrier.domain.fields import FieldCondition, comparable
from retrier.store.engine.database import reading
from retrier.store.engine.transaction import Transaction
from retrier.store.schema import failed_messages, message_fields

fields = message_fields.c
messages = failed_messages.c

Values = Mapping[str, str]
"""Values by the names of their fields."""


def write(tx: Transaction, values: Mapping[int, Values], stored: Collection[int]) -> None:
    """Write the values of messages, by number, which the caller has locked or added.

    They take the place of those of the messages that are `stored` already.
    """
    if again := sorted(values.keys() & stored):
        delete_of(tx, again)
    rows = [
        {"number": number, "name": name, "value": value, "comparable": comparable(value)}
        for number, each in values.items()
        for name, value in each.items()
    ]
    if rows:
        tx.sql.add_rows(tx.conn, message_fields, rows)


def delete_of(tx: Transaction, numbers: Sequence[int]) -> None:
    """Delete the values of these messages."""
    tx.execute(delete(message_fields).where(tx.sql.member(fields.number, numbers)))


@reading
def find_fields(tx: Transaction, unique_ids: Sequence[str]) -> Mapping[str, Values]:
    """Return the values of these messages, in order of their names; none is left out.

    Raises DatabaseUnavailable.
    """
    query = (
        select(messages.unique_message_id, fields.name, fields.value)
        .join_from(failed_messages, message_fields, fields.number == messages.number)
        .where(tx.sql.member(messages.unique_message_id, list(unique_ids)))
        .order_by(fields.number, fields.name)
    )
    found: dict[str, dict[str, str]] = {each: {} for each in unique_ids}
    for unique_id, name, value in tx.execute(query) if unique_ids else ():
        found[unique_id][name] = value
    return found


def holders_of(condition: FieldCondition) -> Select[tuple[int]]:
    """Return the query for the numbers of the messages that meet a condition."""
    bounds = condition.bounds
    named = select(fields.number).where(fields.name == condition.name)
    if bounds is None:
        return named.where(fields.value == condition.value)
    lowest, highest = bounds
    ends = [
        *([] if lowest is None else [fields.comparable >= lowest]),
        *([] if highest is None else [fields.comparable <= highest]),
    ]
    return named.where(*ends)


def have_fields(conditions: Iterable[FieldCondition]) -> list[ColumnElement[bool]]:
    """Return the conditions that messages have these values, to be joined by AND."""
    return [messages.number.in_(holders_of(each)) for each in conditions]
