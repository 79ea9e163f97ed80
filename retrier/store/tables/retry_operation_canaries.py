"""Canaries (`retry_operation_canaries`): the few messages of an operation that are sent first."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Update, select, update

from retrier.domain.retry_operation import Canary, CanaryState
from retrier.store.engine.transaction import ConcurrentChange, Transaction
from retrier.store.schema import failed_message_retries, retry_operation_canaries

canaries = retry_operation_canaries.c
claims = failed_message_retries.c


def add(tx: Transaction, operation_id: str, canary: Canary) -> None:
    """Add the canary of a new operation."""
    row = {
        "operation_id": operation_id,
        "size": canary.size,
        "wait_ms": round(canary.wait.total_seconds() * 1000),
        "most_back": canary.most_back,
        "state": CanaryState.SENDING,
        "retries": [],
    }
    tx.execute(retry_operation_canaries.insert(), row)


def remember(tx: Transaction, operation_id: str, numbers: Sequence[int]) -> None:
    """Keep the retry ids under which these messages, just claimed, are sent.

    A claim ends when its message comes back, and then only its retry id says which retry failed.
    """
    query = select(claims.number, claims.retry_id).where(tx.sql.member(claims.number, numbers))
    sent = [[row.number, row.retry_id] for row in tx.execute(query.order_by(claims.number))]
    known = [*_retries(tx, operation_id), *sent]
    tx.execute(_of(operation_id).values(retries=known))


def move(
    tx: Transaction,
    operation_id: str,
    before: CanaryState,
    after: CanaryState,
    came_back: int | None = None,
) -> None:
    """Move a canary from one state to the next. Raises ConcurrentChange if it is in another."""
    known = {"state": after, "came_back": came_back}
    if tx.execute(_of(operation_id).where(canaries.state == before).values(known)).rowcount != 1:
        raise ConcurrentChange


def wait(tx: Transaction, operation_id: str, until: datetime) -> None:
    """Let a canary that is sent wait. Raises ConcurrentChange if it is in another state."""
    move(tx, operation_id, CanaryState.SENDING, CanaryState.WAITING)
    tx.execute(_of(operation_id).values(waited_until=until))


def _retries(tx: Transaction, operation_id: str) -> Sequence[tuple[int, str]]:
    query = select(canaries.retries).where(canaries.operation_id == operation_id)
    return [(int(number), str(retry)) for number, retry in tx.execute(query).scalar_one()]


def _of(operation_id: str) -> Update:
    return update(retry_operation_canaries).where(canaries.operation_id == operation_id)
