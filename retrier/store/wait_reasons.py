"""Why messages wait, whatever holds them; and waits that began after now.

The database's clock was set back, then: they are counted anew.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice

from sqlalchemy import ColumnElement, and_, exists, func, or_, select

from retrier.domain.failed_message import Disposition
from retrier.domain.identity import canonical, is_guid
from retrier.domain.schedule import Schedule
from retrier.domain.wait_reasons import WaitReason, describe_reasons
from retrier.store import breaker_lists, messages, operations
from retrier.store import breakers as breaker_rows
from retrier.store.breaker_lists import breaker_from_row, why_each_waits
from retrier.store.engine.database import Database, reading
from retrier.store.engine.transaction import Transaction
from retrier.store.holds import IS_HELD, describe_held, is_any_strict
from retrier.store.lease import fenced
from retrier.store.message_lists import ListedMessage
from retrier.store.obstacles import find_reasons
from retrier.store.schedule import FIRST, free
from retrier.store.schema import (
    SCHEDULED,
    breakers,
    cause_groups,
    failed_messages,
    retry_operations,
)

message_columns = failed_messages.c
operation_columns = retry_operations.c


_SCHEDULED = select(func.count()).select_from(failed_messages).where(SCHEDULED).scalar_subquery()
_SCHEDULE = select(_SCHEDULED, FIRST)
_FIRST_NUMBER = (
    select(message_columns.number)
    .where(*free())
    .order_by(message_columns.retry_at, message_columns.failure_seq)
    .limit(1)
)


def find_schedule(tx: Transaction) -> Schedule:
    """Count what is scheduled, and find when the first message is due; if it is due, what holds it."""
    scheduled, first = tx.execute(_SCHEDULE).one()
    held = None if first is None or first > tx.now else _why_first_waits(tx)
    return Schedule(scheduled=scheduled, next_at=first, held=held)


def _why_first_waits(tx: Transaction) -> str | None:
    first = tx.execute(_FIRST_NUMBER).scalars().all()
    # No more than one, and none if it went meanwhile.
    return next(
        iter([*describe_held(tx, first).values(), *why_each_waits(tx, first).values()]), None
    )


_MOST_HELD = 1000
"""Held messages that are looked at to tell of their groups."""


@reading
def find_waits(tx: Transaction, unique_message_id: str) -> tuple[WaitReason, ...]:
    """Say why a message waits, each thing that holds it. Raises DatabaseUnavailable."""
    if not is_guid(unique_message_id):
        return ()
    key = message_columns.unique_message_id == canonical(unique_message_id)
    numbers = tx.execute(select(message_columns.number).where(key)).scalars().all()
    found = find_reasons(tx, numbers, describe_held(tx, numbers))
    return next(iter(found.values()), ())


def why_listed_wait(db: Database, listed: Iterable[ListedMessage]) -> Mapping[str, str]:
    """Say of those of these messages that are scheduled why they wait, by id.

    Nothing of one that waits for its time. Raises DatabaseUnavailable.
    """
    ids = [each.unique_message_id for each in listed if each.disposition is Disposition.SCHEDULED]
    return _find_each(db, ids) if ids else {}


@reading
def _find_each(tx: Transaction, ids: Sequence[str]) -> Mapping[str, str]:
    query = select(message_columns.number, message_columns.unique_message_id)
    rows = tx.execute(query.where(tx.sql.member(message_columns.unique_message_id, ids))).all()
    numbers = [row.number for row in rows]
    found = find_reasons(tx, numbers, describe_held(tx, numbers))
    told = {row.unique_message_id: describe_reasons(found.get(row.number, ())) for row in rows}
    return {key: why for key, why in told.items() if why is not None}


@reading
def why_groups_wait(tx: Transaction, group_ids: Sequence[str]) -> Mapping[str, str]:
    """Say of those groups of which messages wait for a breaker or in a stream, for which.

    Raises DatabaseUnavailable.
    """
    if not group_ids:
        return {}
    return {**_find_held(tx, group_ids), **breaker_lists.find_groups(tx, group_ids)}


def _find_held(tx: Transaction, group_ids: Sequence[str]) -> Mapping[str, str]:
    """Say what holds one message of each group in its stream."""
    if not is_any_strict(tx):
        return {}
    held = (
        select(message_columns.number, message_columns.cause_id)
        .where(IS_HELD)
        .limit(_MOST_HELD)
        .subquery()
    )
    query = (
        select(cause_groups.c.group_id, func.min(held.c.number))
        .join_from(cause_groups, held, held.c.cause_id == cause_groups.c.cause_id)
        .where(tx.sql.member(cause_groups.c.group_id, group_ids))
        .group_by(cause_groups.c.group_id)
    )
    first = {row[0]: row[1] for row in tx.execute(query)}
    told = describe_held(tx, sorted({*first.values()}))
    return {group_id: told[number] for group_id, number in first.items() if number in told}


AT_ONCE = 1000
"""Messages of one transaction at most."""
OPERATIONS_AT_ONCE = 200
"""Each has a statement of its own."""
_SLACK = timedelta(seconds=1)
"""A clock that is set back by less is no reason to do anything: a wait is that much longer."""


def _messages_of_later(now: datetime) -> ColumnElement[bool]:
    # `last_modified` is when it was decided, or later. It is indexed: nothing is read as a rule.
    return and_(
        SCHEDULED, message_columns.last_modified > now + _SLACK, message_columns.retry_at > now
    )


def _find_operations(tx: Transaction) -> Mapping[str, datetime]:
    """Return those whose delay began later than now, and until when each is to wait.

    Only what was asked for in so long a time, and not at a time: that is a person's word.
    """
    query = select(
        operation_columns.operation_id, operation_columns.not_before, operation_columns.delay_ms
    ).where(
        operation_columns.delay_ms.is_not(None),
        operation_columns.completed_at.is_(None),
        operation_columns.not_before > tx.now,
    )
    delays = [
        (row.operation_id, row.not_before, timedelta(milliseconds=row.delay_ms))
        for row in tx.execute(query.order_by(operation_columns.operation_id))
    ]
    late = tx.now + _SLACK
    return {key: tx.now + delay for key, until, delay in delays if until - delay > late}


def _hands_of_later(now: datetime) -> ColumnElement[bool]:
    return and_(breakers.c.hand.is_not(None), breakers.c.changed_at > now + _SLACK)


@reading
def is_any_wait_of_later(tx: Transaction) -> bool:
    """Say whether something waits since a time that has not come. Raises DatabaseUnavailable."""
    now = tx.now
    waits = or_(exists().where(_messages_of_later(now)), exists().where(_hands_of_later(now)))
    return bool(tx.execute(select(waits)).scalar_one()) or bool(_find_operations(tx))


@fenced
def count_waits_anew(tx: Transaction) -> int:
    """Let each of these waits begin now, as long as it was asked for; return how many.

    Breakers, operations and messages are locked in the order in which all lock them. Raises
    LeaseLost, DatabaseUnavailable.
    """
    return _count_hands(tx) + _count_operations(tx) + _count_messages(tx)


def _count_hands(tx: Transaction) -> int:
    key = breakers.c.breaker_key
    query = select(breakers).where(_hands_of_later(tx.now)).order_by(key).with_for_update()
    found = [breaker_from_row(row) for row in tx.execute(query)]
    anew = []
    for each in found:
        if each.hand is not None:
            hand = replace(each.hand, until=tx.now + (each.hand.until - each.changed_at))
            anew.append(replace(each, hand=hand, changed_at=tx.now))
    breaker_rows.write(tx, anew)
    return len(found)


def _count_operations(tx: Transaction) -> int:
    # Some at a time: who looks again in two seconds finds the others.
    waits = islice(_find_operations(tx).items(), OPERATIONS_AT_ONCE)
    return sum(operations.wait_no_longer(tx, key, until) for key, until in waits)


def _count_messages(tx: Transaction) -> int:
    query = (
        select(message_columns.number, message_columns.retry_at, message_columns.last_modified)
        .where(_messages_of_later(tx.now))
        .order_by(message_columns.number)
        .limit(AT_ONCE)
        .with_for_update()
    )
    rows = tx.execute(query).all()
    waits = {row.number: max(timedelta(0), row.retry_at - row.last_modified) for row in rows}
    messages.schedule_anew(tx, {number: tx.now + wait for number, wait in waits.items()})
    return len(waits)
