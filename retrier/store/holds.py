"""Which messages a cut leaves out because of breakers, and because of the order of their streams.

However many breakers are not closed, a cut asks as many statements: what it leaves out is one
condition, and one statement finds what may try them.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Select,
    and_,
    bindparam,
    exists,
    false,
    func,
    literal,
    literal_column,
    not_,
    or_,
    select,
    tuple_,
)
from sqlalchemy.sql.selectable import NamedFromClause

from retrier.domain.breakers import Breaker, BreakerState, Per, why_all_wait
from retrier.domain.failed_message import Disposition, FailedMessageStatus
from retrier.domain.retry_operation import RetryOperation
from retrier.domain.streams import Head, Stream, describe_hold
from retrier.domain.values import dataclass
from retrier.domain.wait_reasons import IN_TURN, WaitReason
from retrier.store.breaker_lists import NOT_CLOSED, breaker_from_row
from retrier.store.cuts import IS_UNRESOLVED, free_messages, free_now
from retrier.store.engine.transaction import StoredRow, Transaction
from retrier.store.obstacles import find_reasons
from retrier.store.redirects import redirected_from
from retrier.store.schedule import LeftOut
from retrier.store.schema import (
    STRICT,
    breakers,
    causes,
    event_log,
    failed_message_retries,
    failed_messages,
    ledger,
    message_redirects,
)

messages = failed_messages.c
claims = failed_message_retries.c
redirects = message_redirects.c


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

# Every number is above 0. Said here, so that SQLite takes the index of strict messages: it would
# read all that are unresolved by another one.
_IS_ANY_STRICT = select(exists(select(messages.number).where(STRICT, messages.number > 0)))
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


MOST_STREAMS = 10_000
"""Streams with open messages whose heads are looked at; of more, each message is looked at."""


def _first_open(among: NamedFromClause[Any], *wanted: ColumnElement[bool]) -> Select[Any]:
    """Select the number of the first open message of these in the order of the index of streams."""
    # Literals, in the words of the index: see `_IS_OPEN`.
    is_open: ColumnElement[bool] = literal_column(
        f"{among.name}.stream_id IS NOT NULL "
        f"AND {among.name}.status IN ('unresolved', 'retry_issued')"
    )
    key = among.c
    query = select(key.number).where(is_open, key.stream_queue.is_not(None), *wanted)
    order = (key.stream_queue, key.stream_id, key.stream_position, key.number)
    return query.order_by(*order).limit(1)


def _walk() -> Select[Any]:
    """Select the heads of all streams: from one stream to the next in their index, one look each.

    Two looks for the next one, of which one finds it, and not one comparison of queue and id:
    SQLite would read all messages of a queue for that.
    """
    opening, first, found, next_id, next_queue = (
        failed_messages.alias(name)
        for name in ("opening", "first", "found", "next_id", "next_queue")
    )
    walked = (
        select(first.c.stream_queue, first.c.stream_id, first.c.number, literal(1).label("place"))
        .where(first.c.number == _first_open(opening).scalar_subquery())
        .cte("heads", recursive=True)
    )
    of_queue = next_id.c.stream_queue == walked.c.stream_queue
    following = func.coalesce(
        _first_open(next_id, of_queue, next_id.c.stream_id > walked.c.stream_id)
        .correlate(walked)
        .scalar_subquery(),
        _first_open(next_queue, next_queue.c.stream_queue > walked.c.stream_queue)
        .correlate(walked)
        .scalar_subquery(),
    )
    walked = walked.union_all(
        select(found.c.stream_queue, found.c.stream_id, found.c.number, walked.c.place + 1)
        .join_from(walked, found, found.c.number == following)
        .where(walked.c.place <= MOST_STREAMS)
    )
    return select(walked.c.number)


_HEADS = _walk()


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
        tell=_describe_first,
        skip=describe_held,
        looks_again=True,
        by_heads=_hold_by_heads,
    )


def _hold_by_heads(tx: Transaction) -> ColumnElement[bool] | None:
    """Return the condition that a message is held, as a strict one that is no head of a stream."""
    heads = tx.execute(_HEADS).scalars().all()
    if len(heads) > MOST_STREAMS:
        return None
    # A subquery, of which PostgreSQL makes a table of hashes. With an array as a parameter it could
    # compare every message with each of the heads.
    listed = tx.sql.rows_of({"number": heads}, failed_messages)
    in_a_stream = and_(messages.stream_id.is_not(None), messages.stream_queue.is_not(None))
    return and_(_MAY_BE_HELD, in_a_stream, messages.number.not_in(listed))


def is_any_strict(tx: Transaction) -> bool:
    """Return whether there is any message that a stream may hold."""
    return bool(tx.execute(_IS_ANY_STRICT).scalar_one())


def describe_held(tx: Transaction, numbers: Sequence[int]) -> Mapping[int, str]:
    """Return, for those of these messages that are held, what holds them."""
    if not numbers:
        return {}
    rows = tx.execute(_HELD.where(tx.sql.member(messages.number, sorted(numbers)))).all()
    waits = find_reasons(tx, [row.head_number for row in rows])
    return {
        row.number: describe_hold(head_from_row(row, waits.get(row.head_number, ())))
        for row in rows
    }


def head_from_row(row: StoredRow, waits: Sequence[WaitReason]) -> Head:
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


def _describe_first(tx: Transaction, operation: RetryOperation) -> str | None:
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
    return describe_held(tx, [first]).get(first)


MOST_TRIALS = 200
"""Messages of one cut, at most, that try half-open breakers; the next cut has the next ones."""
_MOST_CANDIDATES = 1000
"""Messages of one cut, at most, that are looked at for it."""
MOST_CAUSES = 10_000
"""Causes that are looked up by their ids; of more, a statement looks for them itself."""
# Under another name: the conditions of a selection look at causes of their own.
_held = causes.alias("held")
_CAUSES = select(_held.c.cause_id).outerjoin(
    message_redirects, redirects.from_queue == redirected_from(_held)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Holders:
    """Breakers, by what they are for: a message has one of each at most."""

    by_queue: Mapping[str, Breaker]
    by_type: Mapping[str, Breaker]

    @classmethod
    def of(cls, found: Sequence[Breaker]) -> "Holders":
        """Sort these breakers by what they are for."""
        of_per: dict[Per, dict[str, Breaker]] = {per: {} for per in Per}
        for each in found:
            of_per[each.key.per][each.key.name] = each
        return cls(by_queue=of_per[Per.DESTINATION], by_type=of_per[Per.MESSAGE_TYPE])

    @property
    def any(self) -> bool:
        """Whether there is one."""
        return bool(self.by_queue or self.by_type)

    def those(self, chosen: Callable[[Breaker], bool]) -> "Holders":
        """Return those that are chosen."""
        of_per = (self.by_queue, self.by_type)
        by_queue, by_type = ({k: v for k, v in each.items() if chosen(v)} for each in of_per)
        return Holders(by_queue=by_queue, by_type=by_type)

    def holding(self, row: StoredRow) -> Sequence[Breaker]:
        """Return those that hold the messages of a cause, by its `target` and `message_type`."""
        found = (self.by_queue.get(row.target), self.by_type.get(row.message_type))
        return [each for each in found if each is not None]

    def among(self, tx: Transaction, target: ColumnElement[str]) -> ColumnElement[bool]:
        """Return the condition that one of these holds the messages of a cause."""
        # A cause without a type would make the contrary unknown, and no message of it be found.
        of_type = func.coalesce(_held.c.message_type, "")
        given = ((target, self.by_queue), (of_type, self.by_type))
        return or_(false(), *(tx.sql.member(each, sorted(names)) for each, names in given if names))


def find_left_out(
    tx: Transaction, operation: RetryOperation, not_closed: Sequence[Breaker]
) -> LeftOut | None:
    """Return what a cut of this operation leaves out because of these breakers; None if nothing.

    Of half-open ones that nothing tries yet, one message each is not left out; `trials` says which.
    """
    held = [each for each in not_closed if each.state_at(tx.now) is not BreakerState.CLOSED]
    if not held:
        return None
    holders = Holders.of(held)
    found = _find_causes(tx, operation, holders)
    trials = _choose_trials(tx, operation, holders, found)
    condition = _is_held(tx, operation, holders, found)
    if trials:
        chosen = tx.sql.member(messages.number, sorted(set(trials.values())))
        condition = and_(condition, not_(chosen))
    return LeftOut(
        condition=condition,
        reason=why_all_wait(held, tx.now) or "",
        trials=trials,
        tell=partial(_describe_waiting, holders, found),
    )


def hold_by_breakers(tx: Transaction, operation: RetryOperation) -> LeftOut | None:
    """Return what a cut of this operation leaves out; it locks the breakers that are not closed.

    Who closes one of them waits for this cut: then it finds what the cut has left out.
    """
    return find_left_out(tx, operation, lock_not_closed(tx))


def lock_not_closed(tx: Transaction) -> Sequence[Breaker]:
    """Lock the breakers that are not closed, or that a person has set; return them."""
    query = select(breakers).where(NOT_CLOSED).order_by(breakers.c.breaker_id).with_for_update()
    return [breaker_from_row(row) for row in tx.execute(query)]


def _find_causes(
    tx: Transaction, operation: RetryOperation, held: Holders
) -> Sequence[StoredRow] | None:
    """Return the causes of the messages that these hold; None if there are too many of them."""
    target = _target(operation)
    query = _CAUSES.add_columns(target.label("target"), _held.c.message_type)
    found = tx.execute(query.where(held.among(tx, target)).limit(MOST_CAUSES + 1)).all()
    return None if len(found) > MOST_CAUSES else found


def _is_held(
    tx: Transaction,
    operation: RetryOperation,
    held: Holders,
    found: Sequence[StoredRow] | None,
) -> ColumnElement[bool]:
    """Return the condition that one of these holds a message of an operation.

    With the causes that were looked up: with a subquery the database cannot know how many match.
    """
    if operation.destination in held.by_queue:
        return literal(True)  # noqa: FBT003 - SQL
    if found is None:
        return messages.cause_id.in_(_CAUSES.where(held.among(tx, _target(operation))))
    return tx.sql.member(messages.cause_id, [row.cause_id for row in found])


def _target(operation: RetryOperation) -> ColumnElement[str]:
    """Return where messages of a cause go to in this operation."""
    if operation.destination is not None:
        return literal(operation.destination)
    return func.coalesce(redirects.to_queue, _held.c.destination)


def _choose_trials(
    tx: Transaction,
    operation: RetryOperation,
    held: Holders,
    found: Sequence[StoredRow] | None,
) -> Mapping[int, int]:
    """Choose a message for each half-open breaker that nothing tries, as one cut may have.

    One that two breakers hold tries both, so that neither waits for the other. One that a breaker
    holds which is open, or which another message tries, cannot go, and so cannot try.
    """
    waiting = held.those(partial(_wants_trial, tx))
    if operation.selection.ids is not None or not waiting.any:
        return {}
    if found is None:
        candidates = _find_first(tx, operation, waiting, held)
    else:
        candidates = _find_first_of_each(tx, operation, waiting, held, found)
    trials: dict[int, int] = {}
    chosen: set[int] = set()
    for row, number in candidates:
        tried = held.holding(row)
        if len(chosen) == MOST_TRIALS or any(each.breaker_id in trials for each in tried):
            continue
        chosen.add(number)
        trials.update({each.breaker_id: number for each in tried})
    return trials


def _wants_trial(tx: Transaction, breaker: Breaker) -> bool:
    return breaker.state_at(tx.now) is BreakerState.HALF_OPEN and breaker.trial is None


Candidates = Sequence[tuple[StoredRow, int]]
"""Causes, each with the number of a message, in the order of these."""


def _find_first_of_each(
    tx: Transaction,
    operation: RetryOperation,
    waiting: Holders,
    held: Holders,
    found: Sequence[StoredRow],
) -> Candidates:
    """Find the first free message of each cause that only breakers hold which want a trial.

    Causes without a free message are left out by the statement: however many there are of them,
    every cut finds some that bring a breaker on.
    """
    wanted = {
        row.cause_id: row for row in found if len(waiting.holding(row)) == len(held.holding(row))
    }
    if not wanted:
        return []
    conditions, known = free_now(tx, operation)
    number = (
        select(messages.number)
        # What a stream holds cannot go, and so cannot try: the breaker would wait for it.
        .where(messages.cause_id == _held.c.cause_id, *conditions, not_(IS_HELD))
        .order_by(messages.failure_seq)
        .limit(1)
        .correlate(_held)
        .scalar_subquery()
    )
    of_each = (
        select(_held.c.cause_id, number.label("first"))
        .where(tx.sql.member(_held.c.cause_id, sorted(wanted)))
        .subquery("of_each")
    )
    query = select(of_each).where(of_each.c.first.is_not(None)).limit(_MOST_CANDIDATES)
    rows = sorted(tx.execute(query, known).all(), key=lambda row: int(row.first))
    return [(wanted[row.cause_id], row.first) for row in rows]


def _find_first(
    tx: Transaction, operation: RetryOperation, waiting: Holders, held: Holders
) -> Candidates:
    """Find the first free messages of all, if they have more causes than can be looked at."""
    target, (conditions, known) = _target(operation), free_now(tx, operation)
    others = held.those(lambda each: not _wants_trial(tx, each))
    query = (
        _CAUSES.add_columns(target.label("target"), _held.c.message_type, messages.number)
        .join(failed_messages, messages.cause_id == _held.c.cause_id)
        .where(*conditions, not_(IS_HELD))
        .where(waiting.among(tx, target), not_(others.among(tx, target)))
        .order_by(messages.failure_seq)
        .limit(_MOST_CANDIDATES)
    )
    return [(row, row.number) for row in tx.execute(query, known)]


def _describe_waiting(
    held: Holders, found: Sequence[StoredRow] | None, tx: Transaction, operation: RetryOperation
) -> str | None:
    """Say which of these breakers hold messages of an operation; None if none does.

    One that holds none of them must not be waited for: nobody would look again when others let go.
    """
    target, conditions = _target(operation), [IS_UNRESOLVED, *free_messages(tx, operation)]
    waits = exists().where(messages.cause_id == _held.c.cause_id, *conditions).correlate(_held)
    query = _CAUSES.add_columns(target.label("target"), _held.c.message_type).where(waits)
    if found is None:
        query = query.where(held.among(tx, target))
    else:
        query = query.where(tx.sql.member(_held.c.cause_id, [row.cause_id for row in found]))
    known = {"floor": 0, "cut_off": operation.cut_off}
    rows = tx.execute(query.limit(_MOST_CANDIDATES), known).all()
    waited_for = {each.breaker_id: each for row in rows for each in held.holding(row)}
    return why_all_wait([waited_for[key] for key in sorted(waited_for)], tx.now)
