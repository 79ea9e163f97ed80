"""Verification: whether states, claims, batches, operations and the ledger agree with each other.

Every rule holds at the end of every transaction, so it also holds while the service works: all of
them are read on one view of the database.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from sqlalchemy import Connection, Select, func, select

from retrier.domain.retry_batch import RetryBatchStatus
from retrier.store.database import Database
from retrier.store.lease import Holder, find_holder
from retrier.store.reading.ledger import find_ledger
from retrier.store.schema import (
    failed_message_retries,
    failed_messages,
    processing_attempts,
    retry_batches,
)
from retrier.store.verification_rules import RULES

_AWAITED = (
    select(func.count())
    .select_from(failed_message_retries)
    .join(retry_batches, retry_batches.c.batch_id == failed_message_retries.c.batch_id)
    .where(
        retry_batches.c.status == RetryBatchStatus.FORWARDING,
        failed_message_retries.c.forwarded_at.is_(None),
    )
)

SHOWN = 10
"""Ids that a finding names at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedRule:
    """One rule, how many things break it, and some of their ids."""

    rule: str
    broken: int
    ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreVerification:
    """What the database says of itself, and what the staging queue has to be compared with.

    `batches` are alive; `awaited` messages of the one in Forwarding are not recorded yet.
    `processor` is who may have their copies in hand; None: nobody has.
    """

    rules: tuple[VerifiedRule, ...]
    batches: int
    awaited: int
    processor: Holder | None


def verify_store(db: Database) -> StoreVerification:
    """Look at every rule; changes nothing. Raises DatabaseUnavailable."""
    return db.read(partial(_verify, db))


def _verify(db: Database, conn: Connection) -> StoreVerification:
    looked_at = [_look(conn, rule, query) for rule, query in RULES.items()]
    summed_up = [
        VerifiedRule(rule=rule, broken=abs(difference(conn)))
        for rule, difference in _DIFFERENCES.items()
    ]
    batches = _count(conn, select(func.count()).select_from(retry_batches))
    return StoreVerification(
        rules=(*looked_at, *summed_up),
        batches=batches,
        awaited=_count(conn, _AWAITED),
        processor=find_holder(db, conn),
    )


def _look(conn: Connection, rule: str, query: Select[str]) -> VerifiedRule:
    broken = _count(conn, select(func.count()).select_from(query.subquery()))
    if broken == 0:
        return VerifiedRule(rule=rule, broken=0)
    ids = conn.execute(query.order_by(query.selected_columns[0]).limit(SHOWN)).scalars()
    return VerifiedRule(rule=rule, broken=broken, ids=tuple(ids))


def _miscounted_deliveries(conn: Connection) -> int:
    return find_ledger(conn).uncounted_deliveries


def _miscounted_messages(conn: Connection) -> int:
    return find_ledger(conn).missing_messages


def _miscounted_attempts(conn: Connection) -> int:
    counted = _count(conn, select(func.coalesce(func.sum(failed_messages.c.attempts), 0)))
    return counted - _count(conn, select(func.count()).select_from(processing_attempts))


_DIFFERENCES: dict[str, Callable[[Connection], int]] = {
    "every delivery taken off an error queue is in the ledger under one kind": (
        _miscounted_deliveries
    ),
    "the ledger has as many new messages as there are failed messages": _miscounted_messages,
    "the attempts that messages count are the attempts stored": _miscounted_attempts,
}


def _count(conn: Connection, query: Select[int]) -> int:
    return int(conn.execute(query).scalar_one())
