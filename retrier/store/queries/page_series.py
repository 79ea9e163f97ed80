"""What the plot of the operator's page shows: failures, retries and confirmations by minute."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Column, func, select, union_all

from retrier.domain.failed_message import RetryEnd
from retrier.store.engine.database import reading
from retrier.store.engine.transaction import Transaction
from retrier.store.schema import ended_retries, failed_message_retries, processing_attempts

attempts = processing_attempts.c
claims = failed_message_retries.c
ended = ended_retries.c

ByMinute = Mapping[datetime, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class RetriesByMinute:
    """The retries that were sent in each minute, and those that a consumer confirmed."""

    sent: ByMinute
    confirmed: ByMinute


@reading
def find_last_attempt(tx: Transaction) -> int:
    """Return the number of the newest attempt; 0 before the first. Raises DatabaseUnavailable."""
    return tx.execute(select(func.max(attempts.attempt_id))).scalar_one() or 0


@reading
def count_attempts(tx: Transaction, after: int, until: int) -> ByMinute:
    """Count the failures with numbers above `after`, up to `until`, by the minute they came in.

    No index knows their times, so they are read in the order of their numbers: nearly the same.
    """
    minute = tx.sql.minute_of(attempts.received_at).label("minute")
    within = (attempts.attempt_id > after, attempts.attempt_id <= until)
    query = select(minute, func.count().label("n")).where(*within).group_by(minute)
    return {row.minute: row.n for row in tx.execute(query)}


@reading
def count_retries(tx: Transaction, since: datetime) -> RetriesByMinute:
    """Count what was sent and confirmed since then; reads all claims. Raises DatabaseUnavailable."""
    pending = _by_minute(tx, claims.forwarded_at, since)
    over = _by_minute(tx, ended.forwarded_at, since)
    sent = union_all(pending, over).subquery().c
    confirmed = _by_minute(tx, ended.ended_at, since).where(ended.outcome == RetryEnd.CONFIRMED)
    total = select(sent.minute, func.sum(sent.n)).group_by(sent.minute)
    return RetriesByMinute(
        sent={at: int(count) for at, count in tx.execute(total)},
        confirmed={at: int(count) for at, count in tx.execute(confirmed)},
    )


def _by_minute(tx: Transaction, moment: Column[Any], since: datetime) -> Any:
    minute = tx.sql.minute_of(moment).label("minute")
    return select(minute, func.count().label("n")).where(moment >= since).group_by(minute)
