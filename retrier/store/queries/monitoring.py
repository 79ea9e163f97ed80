"""The ledger, and figures about the service, for people and metrics."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from sqlalchemy import Select, exists, func, select

from retrier.domain.breakers import BreakerState
from retrier.domain.failed_message import FailedMessageStatus
from retrier.domain.retry_batch import RetryBatchStatus
from retrier.domain.retry_operation import RetryOperationState
from retrier.store.engine.database import reading
from retrier.store.engine.transaction import Transaction
from retrier.store.queries.breakers import count_open
from retrier.store.queries.held_streams import NOTHING_HELD, HeldFigures, count_held
from retrier.store.queries.operations import is_alive, is_resting
from retrier.store.queries.policy_sets import count_sets
from retrier.store.queries.selections import are_dead, are_scheduled
from retrier.store.schema import (
    breakers,
    failed_imports,
    failed_message_retries,
    failed_messages,
    ledger,
    outgoing,
    processor_lease,
    retry_batches,
    retry_operations,
)

KINDS_OF_DELIVERY = (
    "new",
    "repeated",
    "redelivered",
    "confirmations",
    "own_copies",
    "failed_imports",
)
"""The ledger counts each delivery taken off an error queue as one of these."""
MOST_NAMED_BREAKERS = 100
"""A time series each: people can open a breaker for any name, and a metric has no end of names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """Counts added as things happened (`entries`), and of the failed messages stored now."""

    entries: Mapping[str, int]
    stored: Mapping[FailedMessageStatus, int]

    @property
    def uncounted_deliveries(self) -> int:
        """Deliveries taken off that no kind counts; 0 when everything adds up.

        A failed import that was read again is counted once more, as what it turned out to be.
        """
        read = self.entry("taken_off") + self.entry("reimported")
        return read - sum(map(self.entry, KINDS_OF_DELIVERY))

    @property
    def missing_messages(self) -> int:
        """New messages that are neither stored nor deleted; 0 when everything adds up."""
        return self.entry("new") - self.entry("deleted") - sum(self.stored.values())

    def entry(self, name: str) -> int:
        """Return the sum of one entry over all instances; 0 if it was never counted."""
        return self.entries.get(name, 0)


def find_ledger(tx: Transaction) -> Ledger:
    """Return the ledger as this transaction sees it."""
    counted = select(ledger.c.entry, func.sum(ledger.c.count)).group_by(ledger.c.entry)
    status = failed_messages.c.status
    stored = select(status, func.count()).group_by(status)
    return Ledger(
        entries={entry: int(count) for entry, count in tx.execute(counted)},
        stored={FailedMessageStatus(name): count for name, count in tx.execute(stored)},
    )


read_ledger = reading(find_ledger)
"""`find_ledger` in a transaction of its own. Raises DatabaseUnavailable."""


@reading
def count_taken_off(tx: Transaction) -> Mapping[str, int]:
    """Count by instance what was taken off the error queues. Raises DatabaseUnavailable."""
    query = (
        select(ledger.c.instance, ledger.c["count"])
        .where(ledger.c.entry == "taken_off")
        .order_by(ledger.c.instance)
    )
    return {instance: int(count) for instance, count in tx.execute(query)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceFigures:
    """Counts by state; states without items are left out.

    `operations` counts the unfinished ones, without the standing one while nothing is due.
    `oldest_unresolved` is the age of the oldest "last failure" among unresolved messages; None when
    nothing is unresolved. `pending` counts the retries that were sent and have no outcome;
    `oldest_pending` is how long ago the first of them was sent. `epoch` is 0 before the first
    processor.
    `outgoing` counts the copies that wait to be sent; `oldest_outgoing` is how long the oldest of
    them has waited. `scheduled` and `dead` count unresolved messages; `oldest_due` is how long
    ago the first of those that no batch has claimed was due; None if none is due.
    `policy_sets` is by how many different sets of policies the processes judge. `open_breakers` has
    for how long each breaker has not been closed; `left_out` is how many messages operations leave
    out, `held` what streams hold, whoever asks for it.
    """

    ledger: Ledger
    operations: Mapping[RetryOperationState, int]
    batches: Mapping[RetryBatchStatus, int]
    failed_imports: int
    oldest_unresolved: timedelta | None
    pending: int
    oldest_pending: timedelta | None
    epoch: int
    outgoing: int
    oldest_outgoing: timedelta | None
    breakers: Mapping[BreakerState, int]
    open_breakers: Mapping[str, timedelta]
    left_out: int
    scheduled: int = 0
    dead: int = 0
    oldest_due: timedelta | None = None
    policy_sets: int = 0
    held: HeldFigures = NOTHING_HELD


@reading
def read_figures(tx: Transaction) -> ServiceFigures:
    """Return the figures of the service. Raises DatabaseUnavailable."""
    operations = select(retry_operations.c.state, func.count()).where(is_alive(), ~is_resting())
    batches = select(retry_batches.c.status, func.count())
    epoch = tx.execute(select(processor_lease.c.epoch)).scalar_one_or_none()
    imports = select(func.count()).select_from(failed_imports)
    sent = failed_message_retries.c.forwarded_at
    pending, oldest = tx.execute(select(func.count(sent), func.min(sent))).one()
    unsent = select(func.count(), func.min(outgoing.c.created_at)).select_from(outgoing)
    waiting, oldest_copy = tx.execute(unsent).one()
    open_breakers = count_open(tx)
    closed = tx.execute(select(func.count()).select_from(breakers)).scalar_one()
    left_out = select(func.coalesce(func.sum(retry_operations.c.left_out), 0)).where(is_alive())
    scheduled, due = tx.execute(_scheduled(tx)).one()
    return ServiceFigures(
        ledger=find_ledger(tx),
        operations={
            RetryOperationState(state): number
            for state, number in tx.execute(operations.group_by(retry_operations.c.state))
        },
        batches={
            RetryBatchStatus(status): number
            for status, number in tx.execute(batches.group_by(retry_batches.c.status))
        },
        failed_imports=tx.execute(imports).scalar_one(),
        oldest_unresolved=_age(tx, _oldest_unresolved(tx)),
        pending=pending,
        oldest_pending=_age(tx, oldest),
        epoch=epoch or 0,
        outgoing=waiting,
        oldest_outgoing=_age(tx, oldest_copy),
        breakers=Counter(state for state, _ in open_breakers.values())
        + Counter({BreakerState.CLOSED: closed - len(open_breakers)}),
        open_breakers={
            key: age for key, (_, age) in islice(open_breakers.items(), MOST_NAMED_BREAKERS)
        },
        left_out=int(tx.execute(left_out).scalar_one()),
        scheduled=scheduled,
        dead=tx.execute(_DEAD).scalar_one(),
        oldest_due=_age(tx, due),
        policy_sets=count_sets(tx),
        held=count_held(tx),
    )


_DEAD = select(func.count()).select_from(failed_messages).where(are_dead())


def _scheduled(tx: Transaction) -> Select[int, Any]:
    """Count what is scheduled, and find what was due first; by the index that has only those."""
    messages = failed_messages.c
    free = ~exists().where(failed_message_retries.c.number == messages.number)
    due = func.min(messages.retry_at).filter(messages.retry_at <= tx.now, free)
    return select(func.count(), due).where(are_scheduled())


def _oldest_unresolved(tx: Transaction) -> datetime | None:
    unresolved = failed_messages.c.status == FailedMessageStatus.UNRESOLVED
    oldest = tx.execute(select(func.min(failed_messages.c.last_failure)).where(unresolved))
    last_failure: datetime | None = oldest.scalar_one()
    return last_failure


def _age(tx: Transaction, since: datetime | None) -> timedelta | None:
    # A sender's clock may be ahead of the database's, and the database's may be set back.
    return None if since is None else max(timedelta(0), tx.now - since)
