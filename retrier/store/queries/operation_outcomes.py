"""What became of the retries of operations: confirmed, came back, or not known yet."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import func, select

from retrier.domain.failed_message import RetryEnd
from retrier.store.engine.database import reading
from retrier.store.engine.transaction import Transaction
from retrier.store.schema import ended_retries, failed_message_retries

ended = ended_retries.c
claims = failed_message_retries.c


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcomes:
    """Of the retries that an operation sent, how many ended in which way; `pending` did not yet."""

    ends: Mapping[RetryEnd, int]
    pending: int

    @property
    def confirmed(self) -> int:
        """How many a consumer confirmed."""
        return self.ends.get(RetryEnd.CONFIRMED, 0)

    @property
    def came_back(self) -> int:
        """How many failed again."""
        return self.ends.get(RetryEnd.FAILED, 0)

    @property
    def others(self) -> int:
        """How many ended otherwise: presumed, resolved, released or reverted."""
        return sum(self.ends.values()) - self.confirmed - self.came_back


@reading
def count_outcomes(tx: Transaction, operation_ids: Sequence[str]) -> Mapping[str, Outcomes]:
    """Count what became of the retries of these operations, by the operation's id.

    No index knows the operations, so all retries are read: slow if there are many. Raises
    DatabaseUnavailable.
    """
    if not operation_ids:
        return {}
    member = tx.sql.member(ended.operation_id, operation_ids)
    query = (
        select(ended.operation_id, ended.outcome, func.count())
        .where(member)
        .group_by(ended.operation_id, ended.outcome)
    )
    ends: dict[str, dict[RetryEnd, int]] = {each: {} for each in operation_ids}
    known = frozenset(RetryEnd)
    for operation_id, outcome, count in tx.execute(query):
        if outcome in known:
            ends[operation_id][RetryEnd(outcome)] = count
    sent = (
        select(claims.operation_id, func.count(claims.forwarded_at).label("sent"))
        .where(tx.sql.member(claims.operation_id, operation_ids))
        .group_by(claims.operation_id)
    )
    pending = {row.operation_id: row.sent for row in tx.execute(sent)}
    return {
        each: Outcomes(ends=found, pending=pending.get(each, 0)) for each, found in ends.items()
    }
