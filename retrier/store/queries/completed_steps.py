"""Completed steps: what all attempts of a message together say."""

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import groupby
from operator import attrgetter
from typing import Any

from sqlalchemy import Select, func, select

from retrier.domain.streams import LOOKED_AT, unite
from retrier.store.engine.sql_dialect import SqlDialect
from retrier.store.engine.transaction import Transaction
from retrier.store.schema import processing_attempts

attempts = processing_attempts.c


def find_steps(tx: Transaction, numbers: Sequence[int]) -> Mapping[int, str | None]:
    """Return the completed steps of these messages by number; none for one that named no steps.

    Only attempts that name some are in the index: without any, this reads nothing.
    """
    rows = tx.execute(_named(tx.sql), {"numbers": list(numbers)})
    return {
        number: unite(row.steps for row in said)
        for number, said in groupby(rows, attrgetter("number"))
    }


NAMED_BY_ANY = (
    select(attempts.number)
    .where(attempts.completed_steps.is_not(None))
    .order_by(attempts.number)
    .limit(1)
    .scalar_subquery()
    .is_not(None)
)
"""Whether any attempt names steps: the first entry of an index that has only such attempts.

Not EXISTS: without statistics the planner expects the first row of the table to name some, and
reads all of them one after the other.
"""


@cache
def _named(sql: SqlDialect) -> Select[Any]:
    return (
        select(attempts.number, func.substr(attempts.completed_steps, 1, LOOKED_AT).label("steps"))
        .where(sql.listed(attempts.number, "numbers"), attempts.completed_steps.is_not(None))
        .order_by(attempts.number, attempts.attempt_id)
    )
