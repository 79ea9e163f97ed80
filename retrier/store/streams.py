"""Streams with open messages: listed, counted, and released by a person."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Select, case, exists, func, or_, select, tuple_

from retrier.domain.failed_message import Disposition, FailedMessageStatus
from retrier.domain.identity import canonical, is_guid
from retrier.domain.retry_operation import RELEASE, Plan, hash_words, hold_numbers
from retrier.domain.streams import (
    Head,
    HeadState,
    NotInStream,
    Released,
    Stream,
    UnknownStream,
    describe_hold,
    show_position,
)
from retrier.domain.text import count_messages
from retrier.domain.values import dataclass
from retrier.store import event_log, messages, operations
from retrier.store.engine.database import reading, writing
from retrier.store.engine.sql_dialect import by_code_point
from retrier.store.engine.transaction import StoredRow, Transaction
from retrier.store.event_log import Entry
from retrier.store.holds import (
    FIRST_NUMBER,
    HEAD_NUMBER,
    IN_ORDER,
    IN_STREAMS,
    IS_HELD,
    describe_held,
    head_from_row,
    is_any_strict,
    of_stream,
)
from retrier.store.message_lists import Page, PageRequest
from retrier.store.obstacles import find_reasons
from retrier.store.schema import causes, failed_message_retries, failed_messages

claims = failed_message_retries.c
message_columns = failed_messages.c


_ON_ITS_WAY = exists().where(claims.number == message_columns.number).label("on_its_way")
_HEAD = (
    message_columns.number,
    message_columns.unique_message_id,
    message_columns.stream_id,
    message_columns.stream_queue,
    message_columns.status,
    message_columns.disposition,
    message_columns.retry_at,
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
    key = (message_columns.stream_queue, message_columns.stream_id)
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
            message_columns.stream_rule,
            message_columns.released,
            message_columns.first_failure,
            message_columns.last_failure,
            IS_HELD.label("held"),
            causes.c.exception_type,
            causes.c.message_type,
        )
        .join_from(failed_messages, causes, causes.c.cause_id == message_columns.cause_id)
        .where(*of_stream(stream))
        .order_by(*IN_ORDER)
        .limit(page.size)
        .offset(page.offset)
    )
    why = describe_hold(listed.head)
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
    found = tx.execute(select(message_columns.failure_seq).where(*of_stream(stream), IS_HELD))
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
    key = (message_columns.stream_queue, message_columns.stream_id)
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
        message_columns.number,
        message_columns.stream_queue,
        message_columns.stream_id,
        message_columns.stream_rule,
        message_columns.stream_position,
        message_columns.stream_position_unread,
        message_columns.released,
    ).where(message_columns.unique_message_id == canonical(unique_message_id))
    row = tx.execute(query.where(message_columns.stream_id.is_not(None))).one_or_none()
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
        held_because=describe_held(tx, [row.number]).get(row.number),
    )


def _counted(queue: str | None = None) -> Select[Any]:
    query = (
        select(
            message_columns.stream_queue,
            message_columns.stream_id,
            func.count().label("open"),
            func.sum(case((IS_HELD, 1), else_=0)).label("held"),
            func.sum(case((message_columns.released, 1), else_=0)).label("released"),
            FIRST_NUMBER.label("first"),
            func.min(message_columns.last_modified).label("since"),
        )
        .where(IN_STREAMS)
        .group_by(message_columns.stream_queue, message_columns.stream_id)
    )
    return query if queue is None else query.where(message_columns.stream_queue == queue)


def _find_heads(tx: Transaction, numbers: list[int]) -> Mapping[int, Head]:
    if not numbers:
        return {}
    query = select(*_HEAD).where(tx.sql.member(message_columns.number, numbers))
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


TOLD_ONE_BY_ONE = 1000
"""Released messages that have an event of their own, at most: more would hide everything else."""


@writing
def release_stream(
    tx: Transaction,
    stream: Stream,
    ids: Sequence[str] | None,
    who: str,
    counted: Sequence[int] | None = None,
) -> Released | UnknownStream | NotInStream:
    """Let go of what is held now in a stream: all of it, or the messages with these ids.

    With `counted`, failure numbers of a plan, only what has one of these.

    They may be retried before the earlier ones, until they fail again. What comes into the stream
    later is held as before. Raises DatabaseUnavailable.
    """
    if (
        tx.execute(select(message_columns.number).where(*of_stream(stream)).limit(1)).first()
        is None
    ):
        return UnknownStream()
    wanted = None if ids is None else list(dict.fromkeys(map(_as_stored, ids)))
    strangers = [] if wanted is None else _find_strangers(tx, stream, wanted)
    if strangers:
        return NotInStream(ids=tuple(strangers))
    held = _lock_held(tx, stream, wanted, counted)
    if held:
        messages.release_from_stream(tx, [row.number for row in held])
        # Behind the locks on messages, as ingestion does, which counts at operations.
        operations.look_again(tx)
        event_log.append(tx, list(_tell(stream, [row.unique_message_id for row in held], who)))
        tx.sql.announce_request(tx.conn)
    released = tuple(row.unique_message_id for row in held)
    rest = tuple(each for each in wanted or () if each not in set(released))
    return Released(ids=released, not_held=rest)


def _find_strangers(tx: Transaction, stream: Stream, ids: Sequence[str]) -> list[str]:
    """Return those of these ids that no message of the stream has, in whichever status."""
    known = select(message_columns.unique_message_id).where(
        tx.sql.member(message_columns.unique_message_id, [each for each in ids if is_guid(each)]),
        message_columns.stream_queue == stream.queue,
        message_columns.stream_id == stream.stream_id,
    )
    found = set(tx.execute(known).scalars())
    return [each for each in ids if each not in found]


def _lock_held(
    tx: Transaction, stream: Stream, ids: Sequence[str] | None, counted: Sequence[int] | None
) -> Sequence[StoredRow]:
    named: list[ColumnElement[bool]] = (
        [] if ids is None else [tx.sql.member(message_columns.unique_message_id, ids)]
    )
    if counted is not None:
        named.append(tx.sql.member(message_columns.failure_seq, counted))
    query = (
        select(message_columns.number, message_columns.unique_message_id)
        .where(*of_stream(stream), IS_HELD, *named)
        .order_by(*IN_ORDER)
        .with_for_update()
    )
    return tx.execute(query).all()


def _tell(stream: Stream, ids: Sequence[str], who: str) -> Iterator[Entry]:
    place = f"stream {stream.stream_id} of {stream.queue}"
    yield Entry(
        kind="stream_released",
        text=f"{place}: {count_messages(len(ids))} released, without a wait for earlier ones",
        who=who,
        details={"queue": stream.queue, "stream_id": stream.stream_id, "count": len(ids)},
    )
    for key in ids[:TOLD_ONE_BY_ONE]:
        yield Entry(
            kind="message_released",
            text=f"{key}: released: it no longer waits for earlier messages of {place}",
            who=who,
            unique_message_id=key,
        )


def _as_stored(unique_id: str) -> str:
    return canonical(unique_id) if is_guid(unique_id) else unique_id


heads = failed_messages.alias("head")


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldFigures:
    """How many messages are held, and how many streams, by the state of the head that holds them.

    `oldest_head` is for how long that head has not changed that stands longest; None without one.
    """

    messages: int = 0
    streams: Mapping[HeadState, int] = field(default_factory=dict)
    oldest_head: timedelta | None = None


NOTHING_HELD = HeldFigures()

_HELD = select(HEAD_NUMBER.label("head")).select_from(failed_messages).where(IS_HELD).subquery()
_BEHIND = (
    select(_HELD.c.head, func.count().label("count")).group_by(_HELD.c.head).subquery("behind")
)
_SENT = or_(
    heads.c.status == FailedMessageStatus.RETRY_ISSUED,
    exists().where(claims.number == heads.c.number),
)
_STATE = case((_SENT, HeadState.ON_ITS_WAY.value), else_=heads.c.disposition).label("state")
_BY_HEAD = select(_STATE, _BEHIND.c["count"], heads.c.last_modified).join_from(
    _BEHIND, heads, heads.c.number == _BEHIND.c.head
)


def find_held_figures(tx: Transaction) -> HeldFigures:
    """Return what streams hold now; without a strict message that is one look into an empty index."""
    if not is_any_strict(tx):
        return NOTHING_HELD
    each = _BY_HEAD.subquery("each")
    summed = func.sum(each.c["count"]).label("messages")
    oldest = func.min(each.c.last_modified).label("oldest")
    rows = tx.execute(select(each.c.state, func.count(), summed, oldest).group_by(each.c.state))
    found = rows.all()
    return HeldFigures(
        messages=int(sum(row.messages for row in found)),
        streams={HeadState(state): count for state, count, *_ in found},
        oldest_head=max((max(timedelta(0), tx.now - row.oldest) for row in found), default=None),
    )
