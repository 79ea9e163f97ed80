"""The order of streams: which messages an earlier one of their stream holds, and since when."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Select,
    and_,
    bindparam,
    exists,
    func,
    literal_column,
    select,
    tuple_,
)

from retrier.domain.failed_message import Disposition, FailedMessageStatus
from retrier.domain.retry_operation import RetryOperation
from retrier.domain.streams import Head, Stream, tell_held
from retrier.domain.waiting import IN_TURN, Reason
from retrier.store.engine.transaction import StoredRow, Transaction
from retrier.store.queries.cuts import free_messages
from retrier.store.queries.left_out import LeftOut
from retrier.store.queries.waits import find_reasons
from retrier.store.schema import (
    STRICT,
    event_log,
    failed_message_retries,
    failed_messages,
    ledger,
)

messages = failed_messages.c
claims = failed_message_retries.c

earlier = failed_messages.alias("earlier")
# Literals, in the words of the index: with parameters neither database would use it.
_IS_OPEN: ColumnElement[bool] = literal_column("earlier.status IN ('unresolved', 'retry_issued')")
_MAY_BE_HELD: ColumnElement[bool] = and_(
    # Else the condition is unknown without a rule, and so is its contrary: no cut would take it.
    messages.stream_rule.is_not(None),
    messages.stream_rule == literal_column("'strict'"),
    messages.status == literal_column("'unresolved'"),
    literal_column("NOT failed_messages.released"),
)
_BEFORE = and_(
    earlier.c.stream_queue == messages.stream_queue,
    earlier.c.stream_id == messages.stream_id,
    tuple_(earlier.c.stream_position, earlier.c.number)
    < tuple_(messages.stream_position, messages.number),
    _IS_OPEN,
)
IS_HELD: ColumnElement[bool] = and_(_MAY_BE_HELD, exists().where(_BEFORE))
"""The condition that a message is held: a strict one that nobody released, behind an open one.

An earlier one that is on its way is open, too, whichever operation has claimed it: so of a strict
stream at most one message is cut, and its successor only when that one is done.
"""

IN_STREAMS: ColumnElement[bool] = literal_column(
    "failed_messages.stream_id IS NOT NULL "
    "AND failed_messages.status IN ('unresolved', 'retry_issued')"
)
"""The condition that a message of a stream is open."""

_IS_ANY_STRICT = select(exists(select(messages.number).where(STRICT)))
HEAD_NUMBER = (
    select(earlier.c.number)
    .where(_BEFORE)
    .order_by(earlier.c.stream_position, earlier.c.number)
    .limit(1)
    .scalar_subquery()
)
"""The number of the first open message of the stream before a message."""
head = failed_messages.alias("head")
_HELD = (
    select(
        messages.number,
        head.c.number.label("head_number"),
        head.c.unique_message_id,
        head.c.stream_id,
        head.c.status,
        head.c.disposition,
        head.c.retry_at,
        exists().where(claims.number == head.c.number).label("on_its_way"),
    )
    .join_from(failed_messages, head, head.c.number == HEAD_NUMBER)
    .where(IS_HELD)
)
FIRST_NUMBER = (
    select(earlier.c.number)
    .where(
        earlier.c.stream_queue == messages.stream_queue,
        earlier.c.stream_id == messages.stream_id,
        _IS_OPEN,
    )
    .order_by(earlier.c.stream_position, earlier.c.number)
    .limit(1)
    .scalar_subquery()
)
"""The number of the first open message of a stream."""
IN_ORDER = (messages.stream_position, messages.number)
"""What messages of one stream are sorted by: the position that is stated, then the number.

All without a position come behind those with one: else three messages could wait for each other.
"""
_UNCHANGED_AT_MOST = timedelta(seconds=30)
"""How long nobody looks again though nothing seems to have changed."""
_MARK = select(
    select(func.max(event_log.c.event_id)).scalar_subquery(),
    select(func.sum(ledger.c.count)).scalar_subquery(),
)


def of_stream(stream: Stream) -> tuple[ColumnElement[bool], ...]:
    """Return the conditions on the open messages of a stream."""
    return (
        messages.stream_queue == stream.queue,
        messages.stream_id == stream.stream_id,
        IN_STREAMS,
    )


def hold_by_streams(tx: Transaction) -> LeftOut | None:
    """Return what cuts leave out because of streams; None if no message is strict.

    That is one look into an index which is empty then, and the cut is planned as without streams.
    """
    if not is_any_strict(tx):
        return None
    return LeftOut(
        condition=IS_HELD,
        reason="an earlier message of the same stream is open",
        tell=_tell_first,
        skip=tell_those_held,
        looks_again=True,
    )


def is_any_strict(tx: Transaction) -> bool:
    """Return whether there is any message that a stream may hold."""
    return bool(tx.execute(_IS_ANY_STRICT).scalar_one())


def tell_those_held(tx: Transaction, numbers: Sequence[int]) -> Mapping[int, str]:
    """Return, for those of these messages that are held, what holds them."""
    if not numbers:
        return {}
    rows = tx.execute(_HELD.where(tx.sql.member(messages.number, sorted(numbers)))).all()
    waits = find_reasons(tx, [row.head_number for row in rows])
    return {
        row.number: tell_held(head_from_row(row, waits.get(row.head_number, ()))) for row in rows
    }


def head_from_row(row: StoredRow, waits: Sequence[Reason]) -> Head:
    """Return the head of a row with its columns and `on_its_way`."""
    whys = [each.why for each in waits]
    is_due = IN_TURN in whys
    return Head(
        unique_message_id=row.unique_message_id,
        stream_id=row.stream_id,
        status=FailedMessageStatus(row.status),
        disposition=Disposition(row.disposition),
        retry_at=row.retry_at,
        on_its_way=bool(row.on_its_way),
        waits_because=None if is_due else "; ".join(whys) or None,
        is_due=is_due,
    )


def find_mark(tx: Transaction) -> str:
    """Return a text that is another one whenever something has changed that may free a message.

    What people and the service do is in the event log, what consumers report in the ledger. A
    transaction may commit after a later one, under a lower id: so it changes with time, too.
    """
    events, counted = tx.execute(_MARK).one()
    return f"{events}, {counted}, {tx.now.timestamp() // _UNCHANGED_AT_MOST.total_seconds():.0f}"


def _tell_first(tx: Transaction, operation: RetryOperation) -> str | None:
    """Say what holds the first message of an operation that is held; None if none is any more."""
    query: Select[Any] = (
        select(messages.number)
        .where(*free_messages(tx, operation), IS_HELD)
        .order_by(messages.failure_seq)
        .limit(bindparam("most"))
    )
    known = {"floor": 0, "cut_off": operation.cut_off, "most": 1}
    first = tx.execute(query, known).scalar_one_or_none()
    if first is None:
        return None
    return tell_those_held(tx, [first]).get(first)
