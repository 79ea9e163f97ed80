"""The messages of a preview counted by queue, group and so on: one reading of the messages.

They are counted by cause first: joined to queues and groups, each message would be several rows.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from itertools import groupby
from operator import attrgetter
from typing import Any

from sqlalchemy import (
    CTE,
    ColumnElement,
    FromClause,
    Select,
    Text,
    case,
    cast,
    func,
    literal_column,
    null,
    select,
    union_all,
)

from retrier.domain.classifiers import CLASSIFIERS
from retrier.store.engine.code_points import by_code_point
from retrier.store.engine.transaction import Transaction
from retrier.store.schema import (
    cause_groups,
    causes,
    failed_messages,
    failure_groups,
    message_redirects,
)

MOST_LINES = 50
"""Lines of a breakdown; what they leave out is summed."""

AGES = (
    ("less than an hour", timedelta(hours=1)),
    ("less than a day", timedelta(days=1)),
    ("less than a week", timedelta(days=7)),
    ("less than 30 days", timedelta(days=30)),
)
OLDEST = "30 days or more"

messages = failed_messages.c


class By(StrEnum):
    """By what messages are counted. ALL has one line; COPIES and REDIRECTS leave messages out."""

    ALL = "all"
    GROUP = "group"
    QUEUE = "queue"
    DESTINATION = "destination"
    AGE = "age"
    ATTEMPTS = "attempts"
    REDIRECTS = "redirects"
    COPIES = "copies"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """How many messages have the same `key`; `name` is for people."""

    key: str
    name: str
    count: int


Counts = Mapping[By, Sequence[Line]]


def count_by(tx: Transaction, chosen: Select[Any]) -> Counts:
    """Count messages in every way; `chosen` selects COUNTED columns of them.

    Of each way the 50 largest counts, the largest first.
    """
    counted = _by_cause(tx, chosen)
    parts = [_largest(by, *what) for by, what in _ways(counted)]
    rows = tx.execute(union_all(*parts)).all()
    found = sorted(rows, key=lambda row: (row.by, -row.n, row.key))
    return {
        By(by): [Line(key=row.key, name=row.name or row.key, count=int(row.n)) for row in same]
        for by, same in groupby(found, attrgetter("by"))
    }


COUNTED = (
    messages.number,
    messages.failure_seq,
    messages.cause_id,
    messages.attempts,
    messages.last_failure,
    messages.maybe_copy_of,
)


def _by_cause(tx: Transaction, chosen: Select[Any]) -> CTE:
    row = chosen.subquery().c
    ages = [(row.last_failure > tx.now - age, name) for name, age in AGES]
    kinds = select(
        row.cause_id,
        row.attempts,
        case(*ages, else_=OLDEST).label("age"),
        case((row.maybe_copy_of.is_(None), 0), else_=1).label("copy"),
    ).subquery()
    keys = (kinds.c.cause_id, kinds.c.attempts, kinds.c.age, kinds.c.copy)
    return select(*keys, func.count().label("n")).group_by(*keys).cte("counted")


Way = tuple[FromClause, ColumnElement[Any], ColumnElement[Any], ColumnElement[Any]]
"""Where to count, by what, its name, and how many messages a row stands for."""


def _ways(counted: CTE) -> Iterator[tuple[By, Way]]:
    n = counted.c.n
    of_cause = counted.join(causes, causes.c.cause_id == counted.c.cause_id)
    to = message_redirects.c.to_queue
    gone = of_cause.outerjoin(
        message_redirects, message_redirects.c.from_queue == causes.c.destination
    )
    grouped = counted.join(cause_groups, cause_groups.c.cause_id == counted.c.cause_id).join(
        failure_groups, failure_groups.c.group_id == cause_groups.c.group_id
    )
    default = case((failure_groups.c.classifier == CLASSIFIERS[0], n), else_=0)
    yield By.ALL, (counted, literal_column("''"), null(), n)
    yield By.COPIES, (counted, literal_column("''"), null(), n * counted.c.copy)
    yield By.QUEUE, (of_cause, causes.c.queue, null(), n)
    yield By.DESTINATION, (gone, func.coalesce(to, causes.c.destination), null(), n)
    yield By.REDIRECTS, (gone, causes.c.destination, to, case((to.is_not(None), n), else_=0))
    yield By.AGE, (counted, counted.c.age, null(), n)
    yield By.ATTEMPTS, (counted, counted.c.attempts, null(), n)
    yield By.GROUP, (grouped, failure_groups.c.group_id, failure_groups.c.title, default)


def _largest(
    by: By,
    source: FromClause,
    key: ColumnElement[Any],
    name: ColumnElement[Any],
    n: ColumnElement[Any],
) -> Select[Any]:
    known = (cast(key, Text).label("key"), cast(name, Text).label("name"))
    each = select(*known, n.label("n")).select_from(source).subquery().c
    total = func.sum(each.n)
    lines = (
        select(literal_column(f"'{by}'").label("by"), each.key, each.name, total.label("n"))
        .group_by(each.key, each.name)
        .having(total > 0)
        .order_by(total.desc(), by_code_point(each.key))
        .limit(MOST_LINES)
        .subquery()
    )
    return select(lines)
