"""Waits that began after now: the database's clock was set back, and they are counted anew."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice

from sqlalchemy import ColumnElement, and_, exists, or_, select

from retrier.store.engine.database import reading
from retrier.store.engine.transaction import Transaction
from retrier.store.queries.breakers import breaker_from_row
from retrier.store.schema import SCHEDULED, breakers, failed_messages, retry_operations
from retrier.store.tables import breakers as breaker_rows
from retrier.store.tables import failed_messages as message_rows
from retrier.store.tables import retry_operations as operation_rows
from retrier.store.verbs.leases import fenced

AT_ONCE = 1000
"""Messages of one transaction at most."""
OPERATIONS_AT_ONCE = 200
"""Each has a statement of its own."""
_SLACK = timedelta(seconds=1)
"""A clock that is set back by less is no reason to do anything: a wait is that much longer."""

messages = failed_messages.c
operations = retry_operations.c


def _messages_of_later(now: datetime) -> ColumnElement[bool]:
    # `last_modified` is when it was decided, or later. It is indexed: nothing is read as a rule.
    return and_(SCHEDULED, messages.last_modified > now + _SLACK, messages.retry_at > now)


def _find_operations(tx: Transaction) -> Mapping[str, datetime]:
    """Return those whose delay began later than now, and until when each is to wait.

    Only what was asked for in so long a time, and not at a time: that is a person's word.
    """
    query = select(operations.operation_id, operations.not_before, operations.delay_ms).where(
        operations.delay_ms.is_not(None),
        operations.completed_at.is_(None),
        operations.not_before > tx.now,
    )
    delays = [
        (row.operation_id, row.not_before, timedelta(milliseconds=row.delay_ms))
        for row in tx.execute(query.order_by(operations.operation_id))
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
    return sum(operation_rows.wait_no_longer(tx, key, until) for key, until in waits)


def _count_messages(tx: Transaction) -> int:
    query = (
        select(messages.number, messages.retry_at, messages.last_modified)
        .where(_messages_of_later(tx.now))
        .order_by(messages.number)
        .limit(AT_ONCE)
        .with_for_update()
    )
    rows = tx.execute(query).all()
    waits = {row.number: max(timedelta(0), row.retry_at - row.last_modified) for row in rows}
    message_rows.schedule_anew(tx, {number: tx.now + wait for number, wait in waits.items()})
    return len(waits)
