"""Failed messages as lists show them: the orders of a list, and the messages on one page.

A message without the value that the list is sorted by comes last, in either direction.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from itertools import groupby, islice
from operator import itemgetter
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from sqlalchemy import (
    ColumnElement,
    Select,
    and_,
    func,
    literal,
    or_,
    select,
    true,
    tuple_,
    union_all,
)

from retrier.domain.failed_message import Disposition, FailedMessageStatus, Resolution
from retrier.domain.failure_texts import Shown, derive
from retrier.domain.message_views import HeaderFacts, read_facts
from retrier.domain.selection import Selection
from retrier.domain.values import dataclass
from retrier.domain.wire import PropertyCodec
from retrier.store.engine.database import reading
from retrier.store.engine.sql_dialect import by_code_point
from retrier.store.engine.transaction import Transaction
from retrier.store.message_counts import find_total
from retrier.store.schema import (
    causes,
    failed_message_retries,
    failed_messages,
    processing_attempts,
)
from retrier.store.selections import Condition, conditions, conditions_looked_up

messages = failed_messages.c
attempts = processing_attempts.c
claims = failed_message_retries.c


T = TypeVar("T")


Key = str | int | datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A place in a list, right behind an item: the values by which that was sorted.

    The last of them is its own alone: a number, or an id. `total` is how many items the list had
    when its first page was read: counted for each page, a list would be read once for each.
    """

    keys: tuple[Key, ...]
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """Which page; numbers start at 1.

    With `by_place` a page begins behind a place, whatever has left the list since, and the number
    does not count; without `after` it is the first page.
    """

    number: int = 1
    size: int = 50
    by_place: bool = False
    after: Place | None = None

    @property
    def offset(self) -> int:
        """How many items come before the page, of a list that is cut by numbers."""
        return 0 if self.by_place else (self.number - 1) * self.size

    def count(self, tx: Transaction, counting: Select[Any]) -> int:
        """Return how many items the list has; of one that is followed, had at its beginning."""
        return int(tx.execute(counting).scalar_one()) if self.after is None else self.after.total

    def behind(
        self, *columns: ColumnElement[Any], descending: bool = False
    ) -> Sequence[ColumnElement[bool]]:
        """Return the condition that an item comes behind the place; none at the beginning."""
        if self.after is None:
            return ()
        return (_comes_after(columns, self.after.keys, descending=descending),)

    def next_place(
        self, total: int, items: Sequence[T], keys: Callable[[T], Sequence[Key]]
    ) -> Place | None:
        """Return the place behind the last of these items; None if the list ends with them."""
        if not self.by_place or len(items) < self.size:
            return None
        return Place(keys=tuple(keys(items[-1])), total=total)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[T]):
    """The items of one page, and how many the whole list has.

    `next` is where the next page begins, of a page by place that is full.
    """

    items: tuple[T, ...]
    total: int
    next: Place | None = None


DEEP = 10_000
"""From this offset on a scan is faster: an index fetches each row from another place."""

WIDE = 20_000
"""From so many matches on, a page is read along an index: most rows there match."""

_MANY_OF_CAUSES = 10
"""So many times more must match if all are of some causes: these may be far down in the list."""

_MOST_TYPES = 5
"""Message types that are tried for one page; then all messages are scanned."""

_MOST_CAUSES = 10_000
"""With more causes, sorting them takes as long as scanning all messages."""


class Sort(StrEnum):
    """What a list of failed messages can be sorted by (ServiceControl: SortInfo)."""

    ID = "id"
    MESSAGE_ID = "message_id"
    MESSAGE_TYPE = "message_type"
    STATUS = "status"
    TIME_SENT = "time_sent"
    MODIFIED = "modified"
    TIME_OF_FAILURE = "time_of_failure"


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """How a list is sorted; messages with equal values by number."""

    sort: Sort = Sort.TIME_SENT
    descending: bool = True


_BY_TYPE = by_code_point(causes.c.message_type)
"""By code point, as the index of message ids sorts."""

_KEYS: MappingProxyType[Sort, Sequence[ColumnElement[Any]]] = MappingProxyType(
    {
        Sort.ID: (messages.unique_message_id,),
        Sort.MESSAGE_ID: (messages.message_id,),
        Sort.MESSAGE_TYPE: (_BY_TYPE,),
        Sort.STATUS: (messages.status, messages.last_failure),
        Sort.TIME_SENT: (messages.time_sent,),
        Sort.MODIFIED: (messages.last_modified,),
        Sort.TIME_OF_FAILURE: (messages.last_failure,),
    }
)
_ALL_UNRESOLVED = Selection(statuses=frozenset({FailedMessageStatus.UNRESOLVED}))
_INDEXED = frozenset(Sort) - {Sort.MESSAGE_TYPE}
_WITHOUT = frozenset({Sort.MESSAGE_ID, Sort.MESSAGE_TYPE, Sort.TIME_SENT})
"""Some messages have no value to be sorted by."""


def find_numbers(
    tx: Transaction,
    wanted: Selection,
    order: Order,
    page: PageRequest,
    *,
    deep: int = DEEP,
    wide: int = WIDE,
) -> Page[int]:
    """Return the numbers of the messages on a page, in order, and how many the list has."""
    if page.by_place:
        return _find_behind(tx, wanted, order, page, wide)
    if wanted == Selection(statuses=wanted.statuses):
        found = conditions(wanted)
        return _find_many(tx, wanted, found, order, page, _total(tx, wanted, found), deep)
    # Once for all: of a text it may read a million texts.
    found = conditions_looked_up(tx, wanted)
    of_causes = _is_of_causes(wanted)
    if of_causes or _may_be_wide(wanted):
        total = _total(tx, wanted, found)
        if total == 0 or total >= wide * (_MANY_OF_CAUSES if of_causes else 1):
            return _find_many(tx, wanted, found, order, page, total, deep)
    return find_narrowed(tx, found, order, page)


def _find_many(
    tx: Transaction,
    wanted: Selection,
    wished: Sequence[Condition],
    order: Order,
    page: PageRequest,
    total: int,
    deep: int,
) -> Page[int]:
    """Return a page of very many messages: an index has its beginning in order."""
    if page.offset >= total:
        return Page(items=(), total=total)
    found: Sequence[int] = ()
    if page.offset < deep:
        found = (
            _cut(tx, _merged(_parts(wanted, order.sort), wished, order, page), page)
            if order.sort in _INDEXED
            else _typed(tx, wished, order, page)
        )
    if len(found) < min(page.size, total - page.offset):
        found = _cut(tx, _scanned(wished, order), page)
    return Page(items=tuple(found), total=total)


def _find_behind(
    tx: Transaction, wanted: Selection, order: Order, page: PageRequest, wide: int
) -> Page[int]:
    """Return the page behind a place.

    By its number a page would begin where so many messages lie before it: one that leaves the list
    moves all that follow, and the first of the next page would be on none.
    """
    wished = conditions_looked_up(tx, wanted)
    total = _total(tx, wanted, wished) if page.after is None else page.after.total
    if total >= wide and order.sort in _INDEXED:
        found = _along_index(tx, wanted, wished, order, page)
    else:
        found = _cut(tx, _scanned([*wished, *_lies_behind(page.after, order)], order), page)
    place = _place_of(tx, found[-1], order, total) if len(found) == page.size else None
    return Page(items=tuple(found), total=total, next=place)


def _along_index(
    tx: Transaction,
    wanted: Selection,
    wished: Sequence[Condition],
    order: Order,
    page: PageRequest,
) -> Sequence[int]:
    """Return a page of many messages: an index leads to the place, and to what lies behind it.

    What has no value to be sorted by comes last. Joined to the others by *or* it would have each
    page read the list from its beginning.
    """
    found: Sequence[int] = ()
    place = page.after
    is_among_last = place is not None and place.keys[0] is None
    if not is_among_last:
        parts = list(_parts_behind(wanted, order, page))
        found = _cut(tx, _merged(parts, wished, order, page), page) if parts else ()
    if len(found) == page.size or order.sort not in _WITHOUT:
        return found
    last = [*wished, _KEYS[order.sort][0].is_(None)]
    last += _lies_behind(place, order) if is_among_last else ()
    rest = replace(page, size=page.size - len(found))
    numbers = _numbers(last, order).order_by(_turned(messages.number, order))
    return [*found, *_cut(tx, numbers, rest)]


def _parts_behind(wanted: Selection, order: Order, page: PageRequest) -> Iterator[Condition]:
    """Yield conditions for the parts of the list, of each for what comes behind the place.

    By status each status is a part: no index leads into the middle of one by a row of three values.
    """
    columns = _place_columns(order)
    if order.sort is not Sort.STATUS or page.after is None:
        beyond = page.behind(*columns, descending=order.descending)
        yield from (and_(part, *beyond) for part in _parts(wanted, order.sort))
        return
    reached, *rest = page.after.keys
    for status in sorted(wanted.statuses or FailedMessageStatus):
        if status == reached:
            further = _comes_after(columns[1:], rest, descending=order.descending)
            yield and_(messages.status == status, further)
        elif (str(status) < str(reached)) is order.descending:
            yield messages.status == status


def _place_columns(order: Order) -> Sequence[ColumnElement[Any]]:
    return [*_KEYS[order.sort], messages.number]


def _lies_behind(place: Place | None, order: Order) -> Iterator[Condition]:
    """Yield the condition that a message comes behind this place."""
    if place is None:
        return
    columns = _place_columns(order)
    if place.keys[0] is None:
        yield columns[0].is_(None)
        yield _comes_after(columns[-1:], place.keys[-1:], descending=order.descending)
        return
    beyond = _comes_after(columns, place.keys, descending=order.descending)
    yield or_(beyond, columns[0].is_(None)) if order.sort in _WITHOUT else beyond


def _comes_after(
    columns: Sequence[ColumnElement[Any]], values: Sequence[Key], *, descending: bool
) -> Condition:
    row = tuple_(*columns)
    place = tuple_(*(literal(value, of.type) for of, value in zip(columns, values, strict=True)))
    return row < place if descending else row > place


def _place_of(tx: Transaction, number: int, order: Order, total: int) -> Place:
    """Return the place of a message in the same snapshot in which it was found."""
    of_message = _numbers([messages.number == number], order).add_columns(*_KEYS[order.sort])
    _, *keys = tx.execute(of_message).one()
    return Place(keys=(*keys, number), total=total)


def _may_be_wide(wanted: Selection) -> bool:
    """Say whether it has a condition that most of the messages may meet."""
    of_time = replace(wanted, failed_from=None, failed_to=None, sent_in=None)
    return wanted != replace(
        of_time,
        attempts_at_least=None,
        disposition=None,
        text=None,
        words=None,
        anywhere=None,
        fields=(),
    )


def _is_of_causes(wanted: Selection) -> bool:
    """Say whether it is about unresolved messages of some causes: an index counts those."""
    others = replace(wanted, group=None, queue=None, endpoint=None)
    return replace(others, message_type=None, exception_type=None) == _ALL_UNRESOLVED


def find_narrowed(
    tx: Transaction, found: Sequence[Condition], order: Order, page: PageRequest
) -> Page[int]:
    """Count and sort in one query: finding the matches takes longer than both."""
    query = _scanned(found, order).add_columns(func.count().over())
    rows = tx.execute(query.limit(page.size).offset(page.offset)).all()
    if not rows:
        return Page(items=(), total=_count(tx, found) if page.offset else 0)
    return Page(items=tuple(row[0] for row in rows), total=rows[0][1])


def _scanned(found: Sequence[Condition], order: Order) -> Select[Any]:
    keys = _KEYS[order.sort]
    hidden = map(_hidden, keys) if order.sort in _INDEXED else keys
    return _numbers(found, order).order_by(*_directed([*hidden, messages.number], order))


def _merged(
    parts: Iterable[Condition], wished: Sequence[Condition], order: Order, page: PageRequest
) -> Select[Any]:
    """Merge the first rows of each of the parts; messages without the value are left out."""
    keys = [key.label(f"key_{place}") for place, key in enumerate(_KEYS[order.sort])]
    along = [_turned(key, order) for key in (*_KEYS[order.sort], messages.number)]
    numbers = _numbers(wished, order).add_columns(*keys).order_by(*along)
    beginning = numbers.limit(page.offset + page.size)
    beginnings = [beginning.where(part).subquery() for part in parts]
    merged = union_all(*map(select, beginnings)).subquery().c
    merged_keys = [*(merged[key.name] for key in keys), merged.number]
    return select(merged.number).order_by(*_directed(merged_keys, order))


def _typed(
    tx: Transaction, wished: Sequence[Condition], order: Order, page: PageRequest
) -> Sequence[int]:
    """Read the messages of the first message types, type by type, each in order of number.

    Returns fewer than a page if these types have no more: `find_numbers` scans all then.
    """
    found: list[int] = []
    last = page.offset + page.size
    for of_type in islice(_causes_by_type(tx, order), _MOST_TYPES):
        numbers = select(messages.number).where(*wished, tx.sql.member(messages.cause_id, of_type))
        along = numbers.order_by(_turned(messages.number, order))
        found += tx.execute(along.limit(last - len(found))).scalars()
        if len(found) == last:
            break
    return found[page.offset :]


def _causes_by_type(tx: Transaction, order: Order) -> Iterator[Sequence[int]]:
    """Yield the causes of each message type, in order; nothing if more than _MOST_CAUSES exist."""
    types = select(causes.c.message_type, causes.c.cause_id)
    rows = tx.execute(types.limit(_MOST_CAUSES + 1)).all()
    if len(rows) <= _MOST_CAUSES:
        rows = tx.execute(types.order_by(*_directed([_BY_TYPE], order))).all()
        for _, same in groupby(rows, itemgetter(0)):
            yield [row.cause_id for row in same]


def _parts(wanted: Selection, sort: Sort) -> Iterator[Condition]:
    """Yield conditions for parts of the list; an index has each part in the list's order."""
    match sort:
        case Sort.TIME_OF_FAILURE:
            # The index of this order begins with the status.
            for status in sorted(wanted.statuses or FailedMessageStatus):
                yield messages.status == status
        case Sort.MESSAGE_ID | Sort.TIME_SENT:
            yield _KEYS[sort][0].is_not(None)
        case _:
            yield true()


def _numbers(found: Sequence[Condition], order: Order) -> Select[Any]:
    query = select(messages.number).where(*found)
    if order.sort is Sort.MESSAGE_TYPE:
        query = query.join_from(failed_messages, causes, causes.c.cause_id == messages.cause_id)
    return query


def _directed(keys: Iterable[ColumnElement[Any]], order: Order) -> Iterator[ColumnElement[Any]]:
    return (_turned(key, order).nulls_last() for key in keys)


def _turned(key: ColumnElement[Any], order: Order) -> ColumnElement[Any]:
    return key.desc() if order.descending else key.asc()


def _hidden(key: ColumnElement[Any]) -> ColumnElement[Any]:
    """Return an expression of equal value that no index matches, on both databases."""
    return func.coalesce(key, key)


def _cut(tx: Transaction, query: Select[Any], page: PageRequest) -> Sequence[int]:
    return tx.execute(query.limit(page.size).offset(page.offset)).scalars().all()


def _total(tx: Transaction, wanted: Selection, found: Sequence[Condition]) -> int:
    """Return how many there are: as they are kept, or else counted."""
    kept = find_total(tx, wanted)
    return _count(tx, found) if kept is None else kept


def _count(tx: Transaction, found: Sequence[Condition]) -> int:
    query = select(func.count()).select_from(failed_messages).where(*found)
    return int(tx.execute(query).scalar_one())


SOURCES = (
    attempts.raw_properties,
    attempts.dialect,
    attempts.exception_message,
    attempts.stack_trace,
    causes.c.queue,
)
"""Columns from which `texts_of` makes headers and texts."""


def texts_of(row: Mapping[str, Any], codec: PropertyCodec) -> Shown:
    """Return headers and texts of a row with SOURCES; a text stored in its own column wins."""
    shown = derive(codec, row["raw_properties"], dialect=row["dialect"], otherwise=row["queue"])
    return replace(
        shown,
        exception_message=row["exception_message"] or shown.exception_message,
        stack_trace=row["stack_trace"] or shown.stack_trace,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedMessage:
    """A failed message without headers, body and attempts; fields are named like columns."""

    unique_message_id: str
    message_id: str | None
    status: FailedMessageStatus
    resolution: Resolution | None
    queue: str
    destination: str
    endpoint: str | None
    message_type: str | None
    exception_type: str | None
    exception_message: str | None
    stack_trace: str | None
    failure_reason: str | None
    time_sent: datetime | None
    first_failure: datetime
    last_failure: datetime
    attempts: int
    disposition: Disposition
    disposition_reason: str | None
    retry_at: datetime | None
    reason: str | None
    policy: str | None
    failure_count: int
    last_modified: datetime
    host: str | None
    process: str | None
    node: str | None
    host_id: str | None
    edit_of: str | None
    facts: HeaderFacts


_PLAIN = (
    messages.unique_message_id,
    messages.message_id,
    causes.c.destination,
    causes.c.endpoint,
    causes.c.message_type,
    causes.c.exception_type,
    causes.c.failure_reason,
    messages.time_sent,
    messages.first_failure,
    messages.last_failure,
    messages.attempts,
    messages.disposition_reason,
    messages.retry_at,
    messages.reason,
    messages.policy,
    messages.failure_count,
    messages.last_modified,
    messages.host,
    messages.process,
    messages.node,
)
"""Columns that are shown as they are."""

_STATES = (messages.status, messages.resolution, messages.disposition, messages.edit_of)


@reading
def list_ids(tx: Transaction, wanted: Selection, order: Order, page: PageRequest) -> Page[str]:
    """Return the ids of one page of the messages that match, and nothing else of them.

    Raises DatabaseUnavailable.
    """
    found = find_numbers(tx, wanted, order, page)
    return Page(items=ids_of(tx, found.items), total=found.total, next=found.next)


def ids_of(tx: Transaction, numbers: Sequence[int]) -> tuple[str, ...]:
    """Return the ids of the messages with these numbers, which exist, in their order."""
    query = select(messages.number, messages.unique_message_id)
    rows = tx.execute(query.where(tx.sql.member(messages.number, numbers)))
    ids = {row.number: row.unique_message_id for row in rows}
    return tuple(ids[each] for each in numbers)


@reading
def list_messages(
    tx: Transaction, wanted: Selection, order: Order, page: PageRequest, codec: PropertyCodec
) -> Page[ListedMessage]:
    """Return one page of the messages that match. Raises DatabaseUnavailable."""
    found = find_numbers(tx, wanted, order, page)
    return Page(items=load(tx, found.items, codec), total=found.total, next=found.next)


def shown_messages(*more: Any) -> Select[Any]:
    """Return the query for the columns that `from_row` reads, and for more columns."""
    return (
        select(messages.number, *_STATES, *_PLAIN, *SOURCES, *more)
        .join_from(failed_messages, causes, causes.c.cause_id == messages.cause_id)
        .join(processing_attempts, processing_attempts.c.attempt_id == messages.attempt_id)
    )


def from_row(row: Mapping[str, Any], codec: PropertyCodec) -> ListedMessage:
    """Return a row of `shown_messages` as a ListedMessage."""
    return listed_with(row, texts_of(row, codec))


def listed_with(row: Mapping[str, Any], texts: Shown) -> ListedMessage:
    """Return a row of `shown_messages` whose texts were derived already."""
    facts = read_facts(texts.headers)
    return ListedMessage(
        **{column.name: row[column.name] for column in _PLAIN},
        queue=row["queue"],
        status=FailedMessageStatus(row["status"]),
        resolution=Resolution(row["resolution"]) if row["resolution"] else None,
        disposition=Disposition(row["disposition"]),
        exception_message=texts.exception_message,
        stack_trace=texts.stack_trace,
        host_id=texts.host_id,
        # Of one that ServiceControl edited, its header says so.
        edit_of=row["edit_of"] or facts.edit_of,
        facts=facts,
    )


def load(
    tx: Transaction, numbers: Sequence[int], codec: PropertyCodec
) -> tuple[ListedMessage, ...]:
    """Return the messages with these numbers, in their order."""
    query = shown_messages().where(tx.sql.member(messages.number, numbers))
    found = {row["number"]: from_row(dict(row), codec) for row in tx.execute(query).mappings()}
    return tuple(found[number] for number in numbers if number in found)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownClaim:
    """The claim of a message; in doubt while it is stamped and not recorded."""

    unique_message_id: str
    batch_id: str
    operation_id: str
    retry_id: str
    sending_since: datetime | None
    forwarded_at: datetime | None


def shown_claims() -> Select[Any]:
    """Return the query of all claims, with the columns that a shown claim has."""
    return select(
        failed_messages.c.unique_message_id,
        claims.batch_id,
        claims.operation_id,
        claims.retry_id,
        claims.sending_since,
        claims.forwarded_at,
    ).join_from(failed_message_retries, failed_messages, failed_messages.c.number == claims.number)
