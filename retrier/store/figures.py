"""The ledger (`ledger`), and figures about the service: for people, metrics and the page."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from sqlalchemy import Column, Label, Select, case, exists, func, select, union_all

from retrier.domain.breakers import BreakerState
from retrier.domain.failed_message import Disposition, FailedMessageStatus, FailureGroup, RetryEnd
from retrier.domain.retry_batch import RetryBatchStatus
from retrier.domain.retry_operation import RetryOperationState
from retrier.domain.values import dataclass
from retrier.store.breaker_lists import count_open
from retrier.store.engine.database import reading
from retrier.store.engine.sql_dialect import NumberSource
from retrier.store.engine.transaction import Transaction
from retrier.store.message_counts import count_statuses
from retrier.store.operation_lists import is_alive, is_resting
from retrier.store.policies import count_sets
from retrier.store.schema import (
    breakers,
    cause_groups,
    causes,
    ended_retries,
    failed_import_sends,
    failed_imports,
    failed_message_retries,
    failed_messages,
    failure_groups,
    ledger,
    outgoing,
    processing_attempts,
    processor_lease,
    retry_batches,
    retry_operations,
)
from retrier.store.selections import are_dead, are_scheduled
from retrier.store.streams import NOTHING_HELD, HeldFigures, find_held_figures
from retrier.store.words import WordLag, find_lag

messages = failed_messages.c
claims = failed_message_retries.c
attempts = processing_attempts.c
ended = ended_retries.c
sends = failed_import_sends.c


def count_deliveries(tx: Transaction, instance: str, counts: Mapping[str, int]) -> None:
    """Add to this instance's entries; instances share no row, so none waits for another."""
    rows = [
        {"instance": instance, "entry": entry, "count": number}
        for entry, number in sorted(counts.items())
        if number
    ]
    if not rows:
        return
    statement = tx.sql.insert(ledger)
    tx.execute(
        statement.on_conflict_do_update(
            index_elements=["instance", "entry"],
            set_={"count": ledger.c.count + statement.excluded["count"]},
        ),
        rows,
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
    words: WordLag | None = None


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
        held=find_held_figures(tx),
        words=find_lag(tx),
    )


_DEAD = select(func.count()).select_from(failed_messages).where(are_dead())


def _scheduled(tx: Transaction) -> Select[int, Any]:
    """Count what is scheduled, and find what was due first; by the index that has only those."""
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


IN_DOUBT_AFTER = timedelta(minutes=1)
"""A failed import whose sending has no answer for so long is a person's matter."""
LATELY = timedelta(hours=24)
"""Of what was resolved, so much is counted."""

_UNRESOLVED = messages.status == FailedMessageStatus.UNRESOLVED
_OTHERS = sorted(set(FailedMessageStatus) - {FailedMessageStatus.UNRESOLVED})
"""Named one by one: then an index has them, and what is unresolved is not read a second time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseCount:
    """The unresolved messages of one cause. Of these `dead` and `scheduled` are so by policy.

    `first` is the first failure of one of them, perhaps by another cause; `surely` the earliest
    time at which one failed by this.
    """

    cause_id: int
    count: int
    dead: int
    scheduled: int
    first: datetime
    surely: datetime
    last: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseFacts:
    """What does not change of a cause: where and why its messages fail, and its groups.

    `recorded` says by id when the first failure of each of these groups was recorded.
    """

    cause_id: int
    queue: str
    exception_type: str | None
    exception_message: str | None
    failure_reason: str | None
    groups: tuple[FailureGroup, ...]
    recorded: Mapping[str, datetime] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnresolvedCounts:
    """Unresolved messages by cause at a time of the database; numbers up to `up_to` are counted."""

    at: datetime
    up_to: int
    causes: Sequence[CauseCount]


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherCounts:
    """What else is stored: messages by status but for unresolved ones, retries, failed imports.

    `resolved_lately` counts by evidence what was resolved within LATELY. `oldest_pending` is when
    the first of the pending retries was sent. `in_doubt` are failed imports that are being sent.
    """

    statuses: Mapping[FailedMessageStatus, int]
    resolved_lately: Mapping[str, int]
    pending: int
    oldest_pending: datetime | None
    imports: int
    in_doubt: int = 0


@reading
def count_unresolved(tx: Transaction, after: int = 0) -> UnresolvedCounts:
    """Count the unresolved messages by cause, or only those that became so after a number.

    Without a number every unresolved message is read: slow if there are many. Raises
    DatabaseUnavailable.
    """
    # Taken first: what is committed later has a higher number, and is found by the next look.
    up_to = tx.sql.last_number(tx.conn, NumberSource.FAILURE_SEQ)
    query = (
        select(
            messages.cause_id,
            func.count().label("count"),
            _sum_of(Disposition.DEAD),
            _sum_of(Disposition.SCHEDULED),
            func.min(messages.first_failure).label("first"),
            func.min(messages.last_failure).label("surely"),
            func.max(messages.last_failure).label("last"),
        )
        .where(_UNRESOLVED, *([messages.failure_seq > after] if after else []))
        .group_by(messages.cause_id)
    )
    found = [
        CauseCount(
            cause_id=cause_id,
            count=count,
            dead=int(dead),  # a sum is a NUMERIC on PostgreSQL
            scheduled=int(scheduled),
            first=first,
            surely=surely,
            last=last,
        )
        for cause_id, count, dead, scheduled, first, surely, last in tx.execute(query)
    ]
    return UnresolvedCounts(at=tx.now, up_to=up_to, causes=found)


def _sum_of(disposition: Disposition) -> Label[Any]:
    one = case((messages.disposition == disposition, 1), else_=0)
    return func.sum(one).label(disposition.value)


@reading
def find_cause_facts(tx: Transaction, cause_ids: Sequence[int]) -> Mapping[int, CauseFacts]:
    """Return what is known of these causes. Raises DatabaseUnavailable."""
    found: dict[int, list[FailureGroup]] = {}
    member = tx.sql.member(cause_groups.c.cause_id, cause_ids)
    grouped = (
        select(cause_groups.c.cause_id, failure_groups)
        .join(failure_groups, failure_groups.c.group_id == cause_groups.c.group_id)
        .where(member)
    )
    # One value for each group, not for each cause of it: all of them stay in memory.
    groups: dict[str, FailureGroup] = {}
    for cause_id, group_id, classifier, title in tx.execute(grouped):
        each = groups.get(group_id)
        if each is None:
            each = FailureGroup(group_id=group_id, classifier=classifier, title=title)
            groups[group_id] = each
        found.setdefault(cause_id, []).append(each)
    recorded = _find_recorded(tx, groups)
    names = ("cause_id", "queue", "exception_type", "exception_message", "failure_reason")
    query = select(*(causes.c[name] for name in names)).where(
        tx.sql.member(causes.c.cause_id, cause_ids)
    )
    facts: dict[int, CauseFacts] = {}
    for row in tx.execute(query).mappings():
        of_cause = tuple(found.get(row["cause_id"], ()))
        first = {each.group_id: recorded[each.group_id] for each in of_cause}
        facts[row["cause_id"]] = CauseFacts(**row, groups=of_cause, recorded=first)
    return facts


def _find_recorded(tx: Transaction, group_ids: Collection[str]) -> Mapping[str, datetime]:
    """Return when the first failure of each group was recorded: each is summed up once."""
    if not group_ids:
        return {}
    query = (
        select(cause_groups.c.group_id, func.min(causes.c.created_at).label("first"))
        .join(causes, causes.c.cause_id == cause_groups.c.cause_id)
        .where(tx.sql.member(cause_groups.c.group_id, sorted(group_ids)))
        .group_by(cause_groups.c.group_id)
    )
    return {row.group_id: row.first for row in tx.execute(query)}


@reading
def count_others(tx: Transaction) -> OtherCounts:
    """Count what else is stored; slow if there is much. Raises DatabaseUnavailable."""
    resolved = (
        select(messages.resolution, func.count())
        .where(
            messages.status == FailedMessageStatus.RESOLVED,
            messages.last_modified >= tx.now - LATELY,
        )
        .group_by(messages.resolution)
    )
    sent = claims.forwarded_at
    pending, oldest = tx.execute(select(func.count(sent), func.min(sent))).one()
    imports = select(func.count()).select_from(failed_imports)
    doubtful = select(func.count()).where(sends.sending_since <= tx.now - IN_DOUBT_AFTER)
    return OtherCounts(
        statuses=count_statuses(tx, _OTHERS),
        resolved_lately={str(name): count for name, count in tx.execute(resolved)},
        pending=pending,
        oldest_pending=oldest,
        imports=tx.execute(imports).scalar_one(),
        in_doubt=tx.execute(doubtful).scalar_one(),
    )


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
def count_retries(
    tx: Transaction, since: datetime, until: datetime | None = None
) -> RetriesByMinute:
    """Count what was sent and confirmed since then; reads all claims. Raises DatabaseUnavailable."""
    pending = _by_minute(tx, claims.forwarded_at, since, until)
    over = _by_minute(tx, ended.forwarded_at, since, until)
    sent = union_all(pending, over).subquery().c
    confirmed = _by_minute(tx, ended.ended_at, since, until).where(
        ended.outcome == RetryEnd.CONFIRMED
    )
    total = select(sent.minute, func.sum(sent.n)).group_by(sent.minute)
    return RetriesByMinute(
        sent={at: int(count) for at, count in tx.execute(total)},
        confirmed={at: int(count) for at, count in tx.execute(confirmed)},
    )


def _by_minute(
    tx: Transaction, moment: Column[Any], since: datetime, until: datetime | None
) -> Any:
    minute = tx.sql.minute_of(moment).label("minute")
    within = [moment >= since, *([] if until is None else [moment < until])]
    return select(minute, func.count().label("n")).where(*within).group_by(minute)
