"""Puts messages into the state *scheduled*, as a policy decides it when they fail."""

from collections.abc import Sequence
from datetime import timedelta

from sqlalchemy import exists, select, update

from retrier.domain.decision import RetryAt
from retrier.domain.failed_message import FailedMessageStatus, Move
from retrier.domain.retry_operation import STANDING_OPERATION
from retrier.store.engine.database import Database, writing
from retrier.store.engine.transaction import Transaction
from retrier.store.judging import ensure_standing
from retrier.store.messages import become_unresolved, lock
from retrier.store.operation_requests import CreatedOperation
from retrier.store.schema import failed_message_retries, failed_messages

POLICY = "payments@0123abcd"
WHY = "failure 1 of 5: retried by itself"
NOW = timedelta(0)
LONG_AGO = timedelta(hours=-1)
LATER = timedelta(hours=1)

STANDING = CreatedOperation(operation_id=STANDING_OPERATION, total=0, repeated=False)
"""The standing operation, as others are told of that were asked for."""

messages = failed_messages.c


@writing
def schedule(
    tx: Transaction, unique_ids: Sequence[str] | None = None, *, within: timedelta = NOW
) -> int:
    """Schedule those of these messages (or of all) that are unresolved and that nobody has claimed.

    Each gets a new failure number, as at a failure. Returns how many.
    """
    tx.sql.share_cut_off(tx.conn)
    claimed = exists().where(failed_message_retries.c.number == messages.number)
    # A policy decides about failures: a message that a cancel gave back has none that counts.
    counted = messages.failure_count >= 1
    wanted = [messages.status == FailedMessageStatus.UNRESOLVED, counted, ~claimed]
    if unique_ids is not None:
        wanted.append(tx.sql.member(messages.unique_message_id, unique_ids))
    numbers = tx.execute(select(messages.number).where(*wanted)).scalars().all()
    lock(tx, numbers)
    at = tx.now + within
    decision = RetryAt(at=at, why=WHY, policy=POLICY)
    become_unresolved(tx, Move.REVERTED, dict.fromkeys(sorted(numbers), decision))
    if numbers:
        ensure_standing(tx, at)
    return len(numbers)


def step_clock(db: Database, to: timedelta) -> None:
    """Let the database's clock be stepped: now every message is due `to` from now."""
    due = update(failed_messages).where(messages.retry_at.is_not(None))
    with db.engine.begin() as conn:
        conn.execute(due.values(retry_at=db.sql.now(conn) + to))


def is_scheduled(db: Database, unique_id: str) -> bool:
    """Say whether a policy has set a time for a message."""
    query = select(messages.disposition).where(messages.unique_message_id == unique_id)
    return bool(db.read(lambda tx: tx.execute(query).scalar_one()) == "scheduled")
