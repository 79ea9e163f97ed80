"""What is due by policy: scheduled messages whose time has come, by the database's clock."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, bindparam, exists, func, literal, select

from retrier.domain.retry_operation import STANDING_OPERATION
from retrier.store.engine.transaction import Transaction
from retrier.store.schema import (
    SCHEDULED,
    failed_message_retries,
    failed_messages,
    retry_operations,
)
from retrier.store.schema.types import UtcTime

messages = failed_messages.c
claims = failed_message_retries.c


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
