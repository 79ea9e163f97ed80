"""Verification: whether states, claims, batches, operations and the ledger agree with each other.

Every rule holds at the end of every transaction. All rules are checked on one snapshot of the
database, so they hold while the service works, too.
"""

from collections.abc import Callable

from sqlalchemy import Select, func, select

from retrier.domain.retry_batch import RetryBatchStatus
from retrier.domain.values import dataclass
from retrier.store.engine.database import reading
from retrier.store.engine.transaction import Transaction
from retrier.store.figures import find_ledger
from retrier.store.lease import Holder, find_holder
from retrier.store.message_counts import count_wrong
from retrier.store.schema import (
    failed_imports,
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

_COUNTS = {
    rule: select(func.count()).select_from(query.subquery()) for rule, query in RULES.items()
}
"""Made once: to put such a query together takes longer than to ask it."""

SHOWN = 10
"""Ids that are shown for a broken rule, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedRule:
    """One rule, how many rows break it, and some of their ids."""

    rule: str
    broken: int
    ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreVerification:
    """The result of all rules, and figures to compare with the staging queue.

    `batches` counts the existing batches, `awaited` the unrecorded messages of the one in
    Forwarding. `processor` may hold copies of these unacknowledged; None if there is none.
    """

    rules: tuple[VerifiedRule, ...]
    batches: int
    awaited: int
    processor: Holder | None


def verify_rows(tx: Transaction) -> StoreVerification:
    """Check every rule on what this transaction sees; changes nothing."""
    looked_at = [_look(tx, rule, query) for rule, query in RULES.items()]
    summed_up = [
        VerifiedRule(rule=rule, broken=abs(difference(tx)))
        for rule, difference in DIFFERENCES.items()
    ]
    batches = _count(tx, select(func.count()).select_from(retry_batches))
    return StoreVerification(
        rules=(*looked_at, *summed_up),
        batches=batches,
        awaited=_count(tx, _AWAITED),
        processor=find_holder(tx),
    )


@reading
def verify_store(tx: Transaction) -> StoreVerification:
    """Check every rule; changes nothing. Raises DatabaseUnavailable."""
    return verify_rows(tx)


def _look(tx: Transaction, rule: str, query: Select[str]) -> VerifiedRule:
    broken = _count(tx, _COUNTS[rule])
    if broken == 0:
        return VerifiedRule(rule=rule, broken=0)
    ids = tx.execute(query.order_by(query.selected_columns[0]).limit(SHOWN)).scalars()
    return VerifiedRule(rule=rule, broken=broken, ids=tuple(map(str, ids)))


def _miscounted_deliveries(tx: Transaction) -> int:
    return find_ledger(tx).uncounted_deliveries


def _miscounted_messages(tx: Transaction) -> int:
    return find_ledger(tx).missing_messages


def _miscounted_attempts(tx: Transaction) -> int:
    counted = _count(tx, select(func.coalesce(func.sum(failed_messages.c.attempts), 0)))
    return counted - _count(tx, select(func.count()).select_from(processing_attempts))


def _imports_too_many(tx: Transaction) -> int:
    """Count imports that are kept though they were read again; others are sent and deleted."""
    read = find_ledger(tx)
    counted = read.entry("failed_imports") - read.entry("reimported")
    kept = _count(tx, select(func.count()).select_from(failed_imports))
    return max(0, kept - counted)


DIFFERENCES: dict[str, Callable[[Transaction], int]] = {
    "every delivery taken off an error queue is in the ledger under one kind": (
        _miscounted_deliveries
    ),
    "the ledger has as many new messages as there are failed messages": _miscounted_messages,
    "the attempts that messages count are the attempts stored": _miscounted_attempts,
    "the counts that are kept of messages are those of the messages": count_wrong,
    "there are no more failed imports than were counted and not read again": _imports_too_many,
}


def _count(tx: Transaction, query: Select[int]) -> int:
    return int(tx.execute(query).scalar_one())
