"""The next messages of what is due by policy: each rule and each queue in its turn.

One statement, whose cost does not grow with what is due: it goes from one pair of a rule and a
cause to the next in an index, one look each, and takes the first few messages of each pair.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

from sqlalchemy import (
    CTE,
    ColumnElement,
    FromClause,
    Integer,
    Select,
    bindparam,
    false,
    func,
    literal,
    or_,
    select,
    true,
)

from retrier.domain.breakers import BreakerKey, Per
from retrier.domain.schedule import DueMessage, take_turns
from retrier.store.engine.sql_dialect import SqlDialect
from retrier.store.engine.transaction import StoredRow, Transaction
from retrier.store.queries.due import NEXT_DUE, free_of_others
from retrier.store.queries.left_out import LeftOut
from retrier.store.schema import causes, failed_messages, message_redirects
from retrier.store.schema.types import UtcTime

messages = failed_messages.c

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
                message_redirects, message_redirects.c.from_queue == causes.c.destination
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
