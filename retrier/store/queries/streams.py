"""Streams with open messages: in a list, and one of them in its order."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Select, case, exists, func, select, tuple_

from retrier.domain.failed_message import Disposition, FailedMessageStatus
from retrier.domain.identity import canonical, is_guid
from retrier.domain.retry_operation import RELEASE, Plan, hash_words, hold_numbers
from retrier.domain.streams import Head, Stream, show_position, tell_held
from retrier.store.engine.code_points import by_code_point
from retrier.store.engine.database import reading
from retrier.store.engine.transaction import Transaction
from retrier.store.queries.ordering import Page, PageRequest
from retrier.store.queries.stream_order import (
    FIRST_NUMBER,
    IN_ORDER,
    IN_STREAMS,
    IS_HELD,
    head_from_row,
    of_stream,
    tell_those_held,
)
from retrier.store.queries.waits import find_reasons
from retrier.store.schema import causes, failed_message_retries, failed_messages

messages = failed_messages.c
claims = failed_message_retries.c

_ON_ITS_WAY = exists().where(claims.number == messages.number).label("on_its_way")
_HEAD = (
    messages.number,
    messages.unique_message_id,
    messages.stream_id,
    messages.stream_queue,
    messages.status,
    messages.disposition,
    messages.retry_at,
    _ON_ITS_WAY,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedStream:
    """A stream: how many of its messages are open, how many of these are held, and its head."""

    stream: Stream
    open: int
    held: int
    released: int
    head: Head
    since: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamMessage:
    """An open message of a stream; `held_because` is None if nothing holds it."""

    unique_message_id: str
    status: FailedMessageStatus
    disposition: Disposition
    retry_at: datetime | None
    stream_rule: str | None
    exception_type: str | None
    message_type: str | None
    released: bool
    on_its_way: bool
    first_failure: datetime
    last_failure: datetime
    held_because: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamDetails:
    """A stream, and one page of its open messages in its order."""

    listed: ListedStream
    messages: Page[StreamMessage]


@reading
def list_streams(
    tx: Transaction, page: PageRequest, queue: str | None = None, *, only_held: bool = False
) -> Page[ListedStream]:
    """Return one page of the streams with open messages, those with most held messages first.

    Raises DatabaseUnavailable.
    """
    counted = _counted(queue)
    if only_held:
        counted = counted.having(func.sum(case((IS_HELD, 1), else_=0)) > 0)
    total = tx.execute(select(func.count()).select_from(counted.subquery())).scalar_one()
    key = (messages.stream_queue, messages.stream_id)
    held = func.sum(case((IS_HELD, 1), else_=0))
    ordered = counted.order_by(held.desc(), *map(by_code_point, key))
    rows = tx.execute(ordered.limit(page.size).offset(page.offset)).mappings().all()
    heads = _find_heads(tx, [row["first"] for row in rows])
    return Page(items=tuple(_listed(dict(row), heads) for row in rows), total=total)


@reading
def find_stream(tx: Transaction, stream: Stream, page: PageRequest) -> StreamDetails | None:
    """Return a stream with one page of its open messages; None if none is open.

    Raises DatabaseUnavailable.
    """
    row = tx.execute(_counted().where(*of_stream(stream))).mappings().one_or_none()
    if row is None:
        return None
    listed = _listed(dict(row), _find_heads(tx, [row["first"]]))
    query = (
        select(
            *_HEAD,
            messages.stream_rule,
            messages.released,
            messages.first_failure,
            messages.last_failure,
            IS_HELD.label("held"),
            causes.c.exception_type,
            causes.c.message_type,
        )
        .join_from(failed_messages, causes, causes.c.cause_id == messages.cause_id)
        .where(*of_stream(stream))
        .order_by(*IN_ORDER)
        .limit(page.size)
        .offset(page.offset)
    )
    why = tell_held(listed.head)
    items = tuple(_message(dict(row), why) for row in tx.execute(query).mappings())
    return StreamDetails(listed=listed, messages=Page(items=items, total=listed.open))


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldNow:
    """What a release of all would let go: how many, and the plan that holds it to these."""

    total: int
    plan: Plan


@reading
def plan_release(tx: Transaction, stream: Stream) -> HeldNow:
    """Name what is held now in a stream by its failure numbers. Raises DatabaseUnavailable.

    By each of them: a message that is there already is held as soon as an earlier one comes.
    """
    found = tx.execute(select(messages.failure_seq).where(*of_stream(stream), IS_HELD))
    numbers = found.scalars().all()
    plan = Plan(
        subject=hash_words(RELEASE, stream.queue, stream.stream_id),
        counted_to=max(numbers, default=0),
        cut_off=max(numbers, default=0),
        total=len(numbers),
        at=tx.now,
        numbers=hold_numbers(numbers),
    )
    return HeldNow(total=len(numbers), plan=plan)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldMessages:
    """How many messages earlier ones of their streams hold, and in how many streams."""

    messages: int = 0
    streams: int = 0


@reading
def count_held(tx: Transaction) -> HeldMessages:
    """Count what streams hold; each strict message is looked at. Raises DatabaseUnavailable."""
    key = (messages.stream_queue, messages.stream_id)
    held = select(func.count().label("held")).where(IS_HELD).group_by(*key).subquery()
    found = select(func.coalesce(func.sum(held.c.held), 0), func.count()).select_from(held)
    count, streams = tx.execute(found).one()
    return HeldMessages(messages=int(count), streams=streams)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceInStream:
    """Where a message stands in its stream; `held_because` is None if nothing holds it.

    `position` is the number that its sender states, `position_unread` what is stated and is none.
    `before` and `open` count messages of the stream that are open, without and with this one.
    """

    stream: Stream
    rule: str | None
    position: str | None
    position_unread: str | None
    released: bool
    before: int
    open: int
    held_because: str | None


@reading
def find_place(tx: Transaction, unique_message_id: str) -> PlaceInStream | None:
    """Return the place of a message; None if it is in no stream. Raises DatabaseUnavailable."""
    if not is_guid(unique_message_id):
        return None
    query = select(
        messages.number,
        messages.stream_queue,
        messages.stream_id,
        messages.stream_rule,
        messages.stream_position,
        messages.stream_position_unread,
        messages.released,
    ).where(messages.unique_message_id == canonical(unique_message_id))
    row = tx.execute(query.where(messages.stream_id.is_not(None))).one_or_none()
    if row is None:
        return None
    stream = Stream(queue=row.stream_queue, stream_id=row.stream_id)
    place = tuple_(row.stream_position, row.number)
    earlier = func.sum(case((tuple_(*IN_ORDER) < place, 1), else_=0))
    counted = select(func.coalesce(earlier, 0), func.count()).where(*of_stream(stream))
    before, in_all = tx.execute(counted).one()
    return PlaceInStream(
        stream=stream,
        rule=row.stream_rule,
        position=show_position(row.stream_position),
        position_unread=row.stream_position_unread,
        released=row.released,
        before=int(before),
        open=in_all,
        held_because=tell_those_held(tx, [row.number]).get(row.number),
    )


def _counted(queue: str | None = None) -> Select[Any]:
    query = (
        select(
            messages.stream_queue,
            messages.stream_id,
            func.count().label("open"),
            func.sum(case((IS_HELD, 1), else_=0)).label("held"),
            func.sum(case((messages.released, 1), else_=0)).label("released"),
            FIRST_NUMBER.label("first"),
            func.min(messages.last_modified).label("since"),
        )
        .where(IN_STREAMS)
        .group_by(messages.stream_queue, messages.stream_id)
    )
    return query if queue is None else query.where(messages.stream_queue == queue)


def _find_heads(tx: Transaction, numbers: list[int]) -> Mapping[int, Head]:
    if not numbers:
        return {}
    query = select(*_HEAD).where(tx.sql.member(messages.number, numbers))
    rows = tx.execute(query).all()
    waits = find_reasons(tx, numbers)
    return {row.number: head_from_row(row, waits.get(row.number, ())) for row in rows}


def _listed(row: Mapping[str, Any], heads: Mapping[int, Head]) -> ListedStream:
    return ListedStream(
        stream=Stream(queue=row["stream_queue"], stream_id=row["stream_id"]),
        open=row["open"],
        held=row["held"],
        released=row["released"],
        head=heads[row["first"]],
        since=row["since"],
    )


def _message(row: Mapping[str, Any], why: str) -> StreamMessage:
    return StreamMessage(
        unique_message_id=row["unique_message_id"],
        status=FailedMessageStatus(row["status"]),
        disposition=Disposition(row["disposition"]),
        retry_at=row["retry_at"],
        stream_rule=row["stream_rule"],
        exception_type=row["exception_type"],
        message_type=row["message_type"],
        released=row["released"],
        on_its_way=bool(row["on_its_way"]),
        first_failure=row["first_failure"],
        last_failure=row["last_failure"],
        held_because=why if row["held"] else None,
    )
