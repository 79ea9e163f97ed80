"""Why a message waits, whatever holds it; and why messages of a group do."""

from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import func, select

from retrier.domain.failed_message import Disposition
from retrier.domain.identity import canonical, is_guid
from retrier.domain.waiting import Reason, tell_reasons
from retrier.store.engine.database import Database, reading
from retrier.store.engine.transaction import Transaction
from retrier.store.queries import breaker_waits
from retrier.store.queries.messages import ListedMessage
from retrier.store.queries.stream_order import IS_HELD, is_any_strict, tell_those_held
from retrier.store.queries.waits import find_reasons
from retrier.store.schema import cause_groups, failed_messages

messages = failed_messages.c
_MOST_HELD = 1000
"""Held messages that are looked at to tell of their groups."""


@reading
def find_waits(tx: Transaction, unique_message_id: str) -> tuple[Reason, ...]:
    """Say why a message waits, each thing that holds it. Raises DatabaseUnavailable."""
    if not is_guid(unique_message_id):
        return ()
    key = messages.unique_message_id == canonical(unique_message_id)
    numbers = tx.execute(select(messages.number).where(key)).scalars().all()
    found = find_reasons(tx, numbers, tell_those_held(tx, numbers))
    return next(iter(found.values()), ())


def why_listed_wait(db: Database, listed: Iterable[ListedMessage]) -> Mapping[str, str]:
    """Say of those of these messages that are scheduled why they wait, by id.

    Nothing of one that waits for its time. Raises DatabaseUnavailable.
    """
    ids = [each.unique_message_id for each in listed if each.disposition is Disposition.SCHEDULED]
    return _find_each(db, ids) if ids else {}


@reading
def _find_each(tx: Transaction, ids: Sequence[str]) -> Mapping[str, str]:
    query = select(messages.number, messages.unique_message_id)
    rows = tx.execute(query.where(tx.sql.member(messages.unique_message_id, ids))).all()
    numbers = [row.number for row in rows]
    found = find_reasons(tx, numbers, tell_those_held(tx, numbers))
    told = {row.unique_message_id: tell_reasons(found.get(row.number, ())) for row in rows}
    return {key: why for key, why in told.items() if why is not None}


@reading
def why_groups_wait(tx: Transaction, group_ids: Sequence[str]) -> Mapping[str, str]:
    """Say of those groups of which messages wait for a breaker or in a stream, for which.

    Raises DatabaseUnavailable.
    """
    if not group_ids:
        return {}
    return {**_find_held(tx, group_ids), **breaker_waits.find_groups(tx, group_ids)}


def _find_held(tx: Transaction, group_ids: Sequence[str]) -> Mapping[str, str]:
    """Say what holds one message of each group in its stream."""
    if not is_any_strict(tx):
        return {}
    held = select(messages.number, messages.cause_id).where(IS_HELD).limit(_MOST_HELD).subquery()
    query = (
        select(cause_groups.c.group_id, func.min(held.c.number))
        .join_from(cause_groups, held, held.c.cause_id == cause_groups.c.cause_id)
        .where(tx.sql.member(cause_groups.c.group_id, group_ids))
        .group_by(cause_groups.c.group_id)
    )
    first = {row[0]: row[1] for row in tx.execute(query)}
    told = tell_those_held(tx, sorted({*first.values()}))
    return {group_id: told[number] for group_id, number in first.items() if number in told}
