"""Locks on failed messages, always in the order of their numbers; conditions on their state."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, case, false, or_, select, true

from retrier.domain.failed_message import MOVES, FailedMessageStatus, Move
from retrier.store.engine.sql_dialect import SqlDialect
from retrier.store.engine.transaction import StoredRow, Transaction
from retrier.store.schema import failed_message_retries, failed_messages

messages = failed_messages.c
claims = failed_message_retries.c


def lock_by_id(tx: Transaction, unique_ids: Sequence[str]) -> Sequence[StoredRow]:
    """Lock the messages that have these ids, in the order of their numbers; return their rows."""
    if not unique_ids:
        return []
    query = (
        select(failed_messages)
        .where(tx.sql.member(messages.unique_message_id, unique_ids))
        .order_by(messages.number)
        .with_for_update()
    )
    return tx.execute(query).all()


def find_existing(tx: Transaction, unique_ids: Sequence[str]) -> frozenset[str]:
    """Return those of these ids that exist; locks nothing."""
    if not unique_ids:
        return frozenset()
    column = messages.unique_message_id
    return frozenset(tx.execute(select(column).where(tx.sql.member(column, unique_ids))).scalars())


def lock(tx: Transaction, numbers: Sequence[int]) -> None:
    """Lock these messages in the order of their numbers; call it before locking any claim."""
    if numbers:
        tx.execute(_lock(tx.sql), {"numbers": numbers})


def lock_those(
    tx: Transaction, unique_ids: Sequence[str], conditions: Iterable[ColumnElement[bool]]
) -> Sequence[StoredRow]:
    """Lock those of these messages that meet conditions, in the order of their numbers.

    They are found by their ids. The conditions stand in a CASE, where no index is used for them:
    see `legal`.
    """
    meets = case((and_(true(), *conditions), true()), else_=false())
    query = (
        select(messages.number, messages.unique_message_id, messages.status)
        .where(tx.sql.member(messages.unique_message_id, unique_ids), meets)
        .order_by(messages.number)
        .with_for_update()
    )
    return tx.execute(query).all()


def lock_oldest(
    tx: Transaction, conditions: Iterable[ColumnElement[bool]], most: int
) -> Sequence[StoredRow]:
    """Lock those that meet conditions, longest unchanged first; return their numbers and sizes.

    One that somebody else has locked is left out: waiting for it in this order could deadlock.
    """
    query = (
        select(messages.number, messages.body_size, messages.properties_size, messages.attempts)
        .where(*conditions)
        .order_by(messages.last_modified)
        .limit(most)
        .with_for_update(skip_locked=True)
    )
    return tx.execute(query).all()


def lock_presumable(
    tx: Transaction, numbers: Sequence[int], sent_before: datetime
) -> Sequence[int]:
    """Lock those of these messages, and their claims, whose retry was recorded before that time.

    A claim in doubt is left out: its message may never have been sent. So is a row that somebody
    else has locked: ingestion may be storing the outcome. This waits for nobody: no deadlock.
    """
    query = (
        select(messages.number)
        .join_from(failed_messages, failed_message_retries, claims.number == messages.number)
        .where(
            tx.sql.member(messages.number, numbers),
            legal(Move.PRESUMED),
            messages.last_retry_id == claims.retry_id,
            claims.forwarded_at <= sent_before,
        )
        .with_for_update(skip_locked=True)
    )
    return tx.execute(query).scalars().all()


def sendable() -> ColumnElement[bool]:
    """Return the condition that a claim still holds, for a join of messages and claims.

    Either the message is unresolved with the failure number of the claim: Marking locks no
    message, so it may have failed again or been archived meanwhile (decision 0027). Or it is
    *retry issued* by this very claim: Forwarding moved it to a new batch in Staging.
    """
    return or_(
        (messages.status == FailedMessageStatus.UNRESOLVED)
        & (messages.failure_seq == claims.failure_seq),
        (messages.status == FailedMessageStatus.RETRY_ISSUED)
        & (messages.last_retry_id == claims.retry_id),
    )


def legal(move: Move) -> ColumnElement[bool]:
    """Return the condition that a message may make this move; for messages found by their numbers.

    No index is to be used for it. While the statistics are older than an act on many, PostgreSQL
    takes a status for rare, and would read all messages that have it, once for each message.
    """
    sources, _ = MOVES[move]
    status = messages.status.concat("")
    # OR, not IN: SQLAlchemy cannot expand a list of values in a statement for many rows.
    return or_(*(status == source for source in sorted(sources)))


@cache
def _lock(sql: SqlDialect) -> Select[Any]:
    return (
        select(messages.number)
        .where(sql.listed(messages.number, "numbers"))
        .order_by(messages.number)
        .with_for_update()
    )
