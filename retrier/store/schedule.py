"""What is due by policy, and the next messages of it: each rule and each queue in its turn.

The turns are one statement, whose cost does not grow with what is due: it goes from one pair of a
rule and a cause to the next in an index, one look each, and takes the first few messages of each
pair.
"""

from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from functools import cache, partial
from typing import Any

from sqlalchemy import (
    CTE,
    ColumnElement,
    FromClause,
    Integer,
    Select,
    bindparam,
    exists,
    false,
    func,
    literal,
    or_,
    select,
    true,
)

from retrier.domain.breakers import BreakerKey, Per
from retrier.domain.retry_operation import STANDING_OPERATION, RetryOperation
from retrier.domain.schedule import DueMessage, take_turns
from retrier.domain.values import dataclass
from retrier.store.engine.sql_dialect import SqlDialect
from retrier.store.engine.transaction import StoredRow, Transaction
from retrier.store.redirects import REDIRECTED_FROM
from retrier.store.schema import (
    SCHEDULED,
    causes,
    failed_message_retries,
    failed_messages,
    message_redirects,
    retry_operations,
)
from retrier.store.schema.types import UtcTime

messages = failed_messages.c
claims = failed_message_retries.c


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """Which messages a cut must leave out for now, and why: something else holds them.

    An operation is not completed while it has left out some; `look_again` lets it find them. With
    `looks_again` it does so by itself. `tell` gives the reason in the words of its first message
    that is left out, None if there is none any more. `skip` gives reasons against named messages:
    without it these are not left out. `trials` are half-open breakers, each with the message, not
    left out, that tries it. `parts` are the several things that hold. `by_heads` looks at the head
    of each stream, and gives another condition for the same messages, which costs less where nearly
    all of them are held; None if there are too many streams for that.
    """

    condition: ColumnElement[bool]
    reason: str
    looks_again: bool = False
    tell: Callable[[Transaction, RetryOperation], str | None] | None = None
    skip: Callable[[Transaction, Sequence[int]], Mapping[int, str]] | None = None
    trials: Mapping[int, int] = field(default_factory=dict)
    parts: Sequence["LeftOut"] = ()
    by_heads: Callable[[Transaction], ColumnElement[bool] | None] | None = None


WhatHolds = Callable[[Transaction, RetryOperation], LeftOut | None]
"""Looks at what a cut of an operation must leave out now; None if nothing."""


def hold_nothing(tx: Transaction, operation: RetryOperation) -> None:
    """Hold no message."""


def join_left_out(*given: LeftOut | None) -> LeftOut | None:
    """Return what all of them leave out; None if none does."""
    parts = tuple(each for each in given if each is not None)
    if not parts:
        return None
    looks_at_heads = any(each.by_heads is not None for each in parts)
    return LeftOut(
        condition=or_(*(each.condition for each in parts)),
        reason="; ".join(each.reason for each in parts),
        trials=dict(ChainMap(*(dict(each.trials) for each in parts))),
        parts=parts,
        by_heads=partial(_join_by_heads, parts) if looks_at_heads else None,
    )


def _join_by_heads(parts: Sequence[LeftOut], tx: Transaction) -> ColumnElement[bool] | None:
    found = [None if each.by_heads is None else each.by_heads(tx) for each in parts]
    if all(condition is None for condition in found):
        return None
    pairs = zip(found, parts, strict=True)
    return or_(*(part.condition if held is None else held for held, part in pairs))


def find_reasons(
    tx: Transaction, operation: RetryOperation, left_out: LeftOut
) -> Sequence[tuple[LeftOut, str]]:
    """Return what still holds messages of an operation, each with its reason."""
    told = (
        (part, part.reason if part.tell is None else part.tell(tx, operation))
        for part in left_out.parts or (left_out,)
    )
    return [(part, why) for part, why in told if why is not None]


def free() -> Iterator[ColumnElement[bool]]:
    """Yield the conditions on messages that are retried by themselves, whenever they are due.

    Nothing about the status: only an unresolved message is scheduled, and PostgreSQL would weigh
    the indexes of unresolved messages. What may be a copy of another is for a person to decide.
    """
    yield SCHEDULED
    yield from free_of_others()


def free_of_others() -> Iterator[ColumnElement[bool]]:
    """Yield those of these conditions that are not about the schedule."""
    yield messages.maybe_copy_of.is_(None)
    yield ~exists().where(claims.number == messages.number)


FIRST = (
    select(messages.retry_at)
    .where(*free())
    .order_by(messages.retry_at, messages.failure_seq)
    .limit(1)
    .scalar_subquery()
)
"""When the first of them is due; NULL if there is none.

Compared with the clock, not the other way round: PostgreSQL's clock is another one at each look,
so a condition `retry_at <= clock` cannot use the index.
"""

IS_DUE = messages.retry_at <= bindparam("now", type_=UtcTime)
"""The condition that the time of a scheduled message has come."""
NEXT_DUE = (
    select(messages.number, messages.failure_seq, messages.body_size)
    .where(*free(), IS_DUE)
    .order_by(messages.retry_at, messages.failure_seq)
    .limit(bindparam("most"))
)
"""The next messages of the standing operation."""

IS_STANDING_MADE = exists().where(retry_operations.c.operation_id == STANDING_OPERATION)
# The first in order, and not whether any exists: PostgreSQL would read all that lies between.
_NEXT_AFTER_NOW = (
    select(messages.retry_at)
    .where(
        SCHEDULED,
        messages.maybe_copy_of.is_(None),
        messages.retry_at >= bindparam("now", type_=UtcTime),
    )
    .order_by(messages.retry_at, messages.failure_seq)
    .limit(1)
    .scalar_subquery()
)
_LOOK = select(IS_STANDING_MADE, _NEXT_AFTER_NOW)
_IS_STANDING_MISSING = select(FIRST, IS_STANDING_MADE)


def is_standing_missing(tx: Transaction) -> bool:
    """Say whether messages are scheduled and no operation is there to send them."""
    first, is_made = tx.execute(_IS_STANDING_MISSING).one()
    return first is not None and not is_made


def look_before_scheduling(tx: Transaction, earliest: datetime) -> tuple[bool, bool]:
    """Say whether the standing operation is there, and whether the processor wakes by then anyway.

    It does if another message is scheduled between now and `earliest`. What is overdue says
    nothing: it may be paused. So one row of the index is read, whatever waits behind or before.
    """
    is_made, first = tx.execute(_LOOK, {"now": tx.now}).one()
    return bool(is_made), first is not None and first < earliest


def first_due_of(tx: Transaction, numbers: Sequence[int]) -> datetime | None:
    """Return when the first of these messages is due; None if none of them is scheduled."""
    these = tx.sql.member(messages.number, numbers)
    query = select(func.min(messages.retry_at, type_=UtcTime)).where(these, SCHEDULED)
    found: datetime | None = tx.execute(query).scalar_one()
    return found


def find_next_due(tx: Transaction) -> datetime | None:
    """Return when the first of those is due that are not due yet."""
    found: datetime | None = tx.execute(select(_NEXT_AFTER_NOW), {"now": tx.now}).scalar_one()
    return found


def is_any_held(tx: Transaction, held: ColumnElement[bool]) -> bool:
    """Say whether a message is due that meets a condition for which cuts leave it out."""
    due = messages.retry_at <= tx.now
    one: Select[Any] = select(literal(1)).select_from(failed_messages).where(*free(), due, held)
    return tx.execute(one.limit(1)).first() is not None


MOST_SOURCES = 2000
"""Pairs of a rule and a cause that take turns; what comes behind them goes by its time alone."""


def find_in_turn(
    tx: Transaction,
    most: int,
    left_out: LeftOut | None = None,
    coming_back: Sequence[BreakerKey] = (),
) -> Sequence[DueMessage | StoredRow]:
    """Return the next messages that are due, at most so many: rules and queues take turns.

    `coming_back`: for these most retries failed lately.
    """
    known = {"now": tx.now, "most": most}
    if left_out is None and not coming_back:
        query = in_turn(tx.sql)
    else:
        may_go = true() if left_out is None else ~left_out.condition
        query = _make(tx.sql, may_go, _goes_to(tx.sql, coming_back))
    rows = tx.execute(query, known).all()
    depth, sources = (rows[0].depth, rows[0].sources) if rows else (0, 0)
    taken = take_turns([_due(row) for row in rows], depth, most)
    are_all = bool(rows) and taken.are_all and sources < MOST_SOURCES
    if are_all or len(taken.messages) == most:
        return taken.messages
    # There may be more than was looked at: the rest of the cut goes to what is due for longest.
    plain = NEXT_DUE if left_out is None else NEXT_DUE.where(~left_out.condition)
    chosen = {each.number for each in taken.messages}
    rest = [row for row in tx.execute(plain, known).all() if row.number not in chosen]
    return [*taken.messages, *rest[: most - len(chosen)]]


def _due(row: StoredRow) -> DueMessage:
    return DueMessage(
        number=row.number,
        failure_seq=row.failure_seq,
        body_size=row.body_size,
        retry_at=row.retry_at,
        source=row.source,
        turn=(row.policy, row.queue),
        comes_back=row.comes_back,
    )


def _goes_to(sql: SqlDialect, keys: Sequence[BreakerKey]) -> ColumnElement[bool]:
    """Return the condition that a message of a cause goes to one of these."""
    target = func.coalesce(message_redirects.c.to_queue, causes.c.destination)
    columns = {Per.DESTINATION: target, Per.MESSAGE_TYPE: func.coalesce(causes.c.message_type, "")}
    names = {per: sorted(key.name for key in keys if key.per is per) for per in Per}
    return or_(false(), *(sql.member(columns[per], names[per]) for per in Per if names[per]))


@cache
def in_turn(sql: SqlDialect) -> Select[Any]:
    """Return the statement if nothing is left out; with the parameters `now` and `most`."""
    return _make(sql, true(), false())


def _make(
    sql: SqlDialect, may_go: ColumnElement[bool], comes_back: ColumnElement[bool]
) -> Select[Any]:
    """Make the statement that finds the first messages of each source that has something due."""
    walked = _walk()
    due = (
        select(walked.c.policy, walked.c.cause_id, walked.c.source)
        .where(walked.c.retry_at <= bindparam("now", type_=UtcTime))
        .cte("due_sources")
    )
    sources = select(func.count()).select_from(walked).scalar_subquery()
    most = bindparam("most", type_=Integer)
    # So many of each that the cut is full if all have as many, and one more, to know of others.
    depth = select(most // func.count() + 2).select_from(due).scalar_subquery()
    # What is not due yet is last in the order of times, and so is left out behind the limit: as a
    # condition of this query PostgreSQL would take the index of times for it, and read all others.
    first = (
        select(messages.number, messages.failure_seq, messages.body_size, messages.retry_at)
        .where(
            # In the words of the index of turns, and not of another one.
            messages.retry_at.is_not(None),
            *free_of_others(),
            messages.policy == due.c.policy,
            messages.cause_id == due.c.cause_id,
            may_go,
        )
        .order_by(messages.policy, messages.cause_id, messages.retry_at, messages.failure_seq)
        .limit(depth)
        .correlate(due)
    )
    rows, found = sql.beside(due, first)
    return (
        select(
            found.number,
            found.failure_seq,
            found.body_size,
            found.retry_at,
            due.c.source,
            due.c.policy,
            causes.c.queue,
            depth.label("depth"),
            sources.label("sources"),
            comes_back.label("comes_back"),
        )
        .select_from(
            rows.join(causes, causes.c.cause_id == due.c.cause_id).outerjoin(
                message_redirects, message_redirects.c.from_queue == REDIRECTED_FROM
            )
        )
        .where(found.retry_at <= bindparam("now", type_=UtcTime))
    )


def _walk() -> CTE:
    """Return all pairs of a rule and a cause with something scheduled, and when its first is due.

    Two looks for the next pair, of which one finds it, and not one comparison of both columns:
    SQLite would read all messages of a rule for that.
    """
    begin, first, found = (failed_messages.alias(name) for name in ("begin", "first", "found"))
    walked = (
        select(
            first.c.policy,
            first.c.cause_id,
            first.c.retry_at,
            literal(1, Integer).label("source"),
        )
        .where(first.c.number == _first_of(begin, begin.c.policy.is_not(None)))
        .cte("sources", recursive=True)
    )
    cause, rule = failed_messages.alias("next_cause"), failed_messages.alias("next_rule")
    of_rule = (cause.c.policy == walked.c.policy, cause.c.cause_id > walked.c.cause_id)
    following = func.coalesce(
        _first_of(cause, *of_rule, behind=walked),
        _first_of(rule, rule.c.policy > walked.c.policy, behind=walked),
    )
    return walked.union_all(
        select(found.c.policy, found.c.cause_id, found.c.retry_at, walked.c.source + 1)
        .join_from(walked, found, found.c.number == following)
        .where(walked.c.source < MOST_SOURCES)
    )


def _first_of(
    among: FromClause, *wanted: ColumnElement[bool], behind: CTE | None = None
) -> ColumnElement[Any]:
    """Return the number of the first scheduled message of these in the order of the index."""
    query = (
        select(among.c.number)
        .where(among.c.retry_at.is_not(None), *wanted)
        .order_by(among.c.policy, among.c.cause_id, among.c.retry_at, among.c.failure_seq)
        .limit(1)
    )
    return (query if behind is None else query.correlate(behind)).scalar_subquery()
