"""Verification: whether states, claims, batches, operations and the ledger agree with each other.

Every rule holds at the end of every transaction, so it also holds while the service works: all of
them are read on one view of the database.
"""

from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import Connection, Select, func, select

from retrier.store.database import Database
from retrier.store.reading.ledger import find_ledger
from retrier.store.schema import (
    failed_messages,
    processing_attempts,
    retry_batches,
)
from retrier.store.verification_rules import RULES

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
    """What the database says of itself, and how many batches are alive in it."""

    rules: tuple[VerifiedRule, ...]
    batches: int


def verify_store(db: Database) -> StoreVerification:
    """Look at every rule; changes nothing. Raises DatabaseUnavailable."""
    return db.read(_verify)


def _verify(conn: Connection) -> StoreVerification:
    looked_at = [_look(conn, rule, query) for rule, query in RULES.items()]
    summed_up = [
        VerifiedRule(rule=rule, broken=abs(difference(conn)))
        for rule, difference in _DIFFERENCES.items()
    ]
    batches = _count(conn, select(func.count()).select_from(retry_batches))
    return StoreVerification(rules=(*looked_at, *summed_up), batches=batches)


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
