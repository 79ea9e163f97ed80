"""Values of declared fields (`message_fields`): rows of messages, and conditions on them."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import accumulate, takewhile

from sqlalchemy import ColumnElement, Select, delete, func, select

from retrier.domain.failed_message import FailedMessageStatus
from retrier.domain.fields import TIMES_LIKE, DeclaredField, FieldCondition, comparable, read_stored
from retrier.domain.values import dataclass
from retrier.domain.wire import PropertyCodec, UnreadableProperties
from retrier.store.engine.database import Database, reading, writing
from retrier.store.engine.sql_dialect import IN_BINARY, by_code_point
from retrier.store.engine.transaction import StoredRow, Transaction
from retrier.store.schema import causes, failed_messages, message_fields, processing_attempts

fields = message_fields.c
messages = failed_messages.c
attempts = processing_attempts.c

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
        value = condition.value
        # The index has the number before the text. `comparable` was stored by the same function.
        number = comparable(value)
        return named.where(
            fields.comparable.is_(None) if number is None else fields.comparable == number,
            fields.value == value,
        )
    lowest, highest = bounds
    ends = [
        *([] if lowest is None else [fields.comparable >= lowest]),
        *([] if highest is None else [fields.comparable <= highest]),
    ]
    is_time = fields.value.like(TIMES_LIKE)
    return named.where(*ends, is_time if condition.is_of_times else ~is_time)


def have_fields(conditions: Iterable[FieldCondition]) -> list[ColumnElement[bool]]:
    """Return the conditions that messages have these values, to be joined by AND."""
    return [messages.number.in_(holders_of(each)) for each in conditions]


MOST_VALUES = 200
"""Values of a field that are counted for people: as many as groups on a page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueCount:
    """A value of a field, and how many unresolved messages have it."""

    value: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueCounts:
    """The values that most unresolved messages have; there are `values` in all, of `messages`."""

    shown: tuple[ValueCount, ...]
    values: int
    messages: int


@reading
def count_values(tx: Transaction, name: str, most: int = MOST_VALUES) -> ValueCounts:
    """Count the unresolved messages by their values of a field: the most first, then by value.

    Reads each of them once, by indexes: slow if there are many. Raises DatabaseUnavailable.
    """
    count = func.count().label("count")
    counted = (
        select(fields.value, count)
        .join_from(message_fields, failed_messages, messages.number == fields.number)
        .where(fields.name == name, messages.status == FailedMessageStatus.UNRESOLVED)
        .group_by(fields.value)
        .subquery()
    )
    in_all = (func.count().over().label("values"), func.sum(counted.c.count).over().label("sum"))
    query = (
        select(counted, *in_all)
        .order_by(counted.c.count.desc(), by_code_point(counted.c.value))
        .limit(most)
    )
    found = tx.execute(query).all()
    return ValueCounts(
        shown=tuple(ValueCount(value=row[0], count=row[1]) for row in found),
        values=found[0][2] if found else 0,
        messages=int(found[0][3]) if found else 0,
    )


MOST_AT_ONCE = 1000
"""Messages of one page that is read anew, at most."""

MOST_BYTES = 16 * 1024 * 1024
"""Bytes of bodies and properties of such a page; one message may have more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadAnew:
    """How many messages were read anew and have how many values; None behind the last one.

    `passed_over` have failed meanwhile: their values are those of that failure.
    """

    read: int
    values: int
    passed_over: int
    after: int | None


def read_anew(
    db: Database, after: int, declared: Sequence[DeclaredField], codec: PropertyCodec
) -> ReadAnew:
    """Read the declared fields of the next stored messages behind a number.

    Read without a lock, and written where the message still shows the failure that was read. Done
    twice it is the same. Raises DatabaseUnavailable.
    """
    rows = find_next(db, after)
    if not rows:
        return ReadAnew(read=0, values=0, passed_over=0, after=None)
    values = {row.number: _read(row, declared, codec) for row in rows}
    attempt_ids = {row.number: row.attempt_id for row in rows}
    written = write_anew(db, values, attempt_ids)
    return ReadAnew(
        read=len(written),
        values=sum(len(values[number]) for number in written),
        passed_over=len(rows) - len(written),
        after=rows[-1].number,
    )


@reading
def find_next(tx: Transaction, after: int) -> Sequence[StoredRow]:
    """Return the next stored messages with the failures that they show, by number."""
    size = messages.body_size + messages.properties_size
    sizes = select(messages.number, size.label("size")).where(messages.number > after)
    found = tx.execute(sizes.order_by(messages.number).limit(MOST_AT_ONCE)).all()
    totals = accumulate(row.size for row in found)
    fitting = sum(1 for _ in takewhile(lambda total: total <= MOST_BYTES, totals))
    numbers = [row.number for row in found[: max(1, fitting)]]
    return shown_failures(tx, numbers) if numbers else []


def shown_failures(tx: Transaction, numbers: Sequence[int]) -> Sequence[StoredRow]:
    """Return these messages with the failures that they show, by number."""
    holders = processing_attempts.alias("holders")
    equal = (
        select(holders.c.body)
        .where(holders.c.attempt_id == attempts.same_body_as)
        .scalar_subquery()
    )
    query = (
        select(
            messages.number,
            messages.attempt_id,
            causes.c.queue,
            attempts.dialect,
            attempts.raw_properties,
            func.coalesce(attempts.body, equal).label("body"),
        )
        .join_from(failed_messages, causes, causes.c.cause_id == messages.cause_id)
        .outerjoin(processing_attempts, attempts.attempt_id == messages.attempt_id)
        .where(tx.sql.member(messages.number, numbers))
        .order_by(messages.number)
        .execution_options(**{IN_BINARY: True})
    )
    return tx.execute(query).all()


def _read(row: StoredRow, declared: Sequence[DeclaredField], codec: PropertyCodec) -> Values:
    if row.raw_properties is None:
        return {}  # somebody has deleted the failure
    try:
        properties = codec.read(bytes(row.raw_properties))
    except UnreadableProperties:
        return {}
    return read_stored(declared, row.queue, row.dialect, properties, bytes(row.body or b""))


@writing
def write_anew(
    tx: Transaction, values: Mapping[int, Values], attempt_ids: Mapping[int, int]
) -> Sequence[int]:
    """Write the values of those messages that still show these failures; return which."""
    query = (
        select(messages.number, messages.attempt_id)
        .where(tx.sql.member(messages.number, sorted(values)))
        .order_by(messages.number)
        .with_for_update()
    )
    same = [row.number for row in tx.execute(query) if row.attempt_id == attempt_ids[row.number]]
    write(tx, {number: values[number] for number in same}, same)
    return same
