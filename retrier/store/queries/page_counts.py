"""What the operator's page counts: unresolved messages by cause, and all others by status."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Label, case, func, select

from retrier.domain.failed_message import Disposition, FailedMessageStatus, FailureGroup
from retrier.store.engine.database import reading
from retrier.store.engine.sql_dialect import NumberSource
from retrier.store.engine.transaction import Transaction
from retrier.store.schema import (
    cause_groups,
    causes,
    failed_imports,
    failed_message_retries,
    failed_messages,
    failure_groups,
)

messages = failed_messages.c
claims = failed_message_retries.c

LATELY = timedelta(hours=24)
"""Of what was resolved, so much is counted."""

_UNRESOLVED = messages.status == FailedMessageStatus.UNRESOLVED
_OTHERS = sorted(set(FailedMessageStatus) - {FailedMessageStatus.UNRESOLVED})
"""Named one by one: then an index has them, and what is unresolved is not read a second time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseCount:
    """The unresolved messages of one cause. Of these `dead` and `scheduled` are so by policy."""

    cause_id: int
    count: int
    dead: int
    scheduled: int
    first: datetime
    last: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseFacts:
    """What does not change of a cause: where and why its messages fail, and its groups."""

    cause_id: int
    queue: str
    exception_type: str | None
    exception_message: str | None
    failure_reason: str | None
    groups: tuple[FailureGroup, ...]


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
    the first of the pending retries was sent.
    """

    statuses: Mapping[FailedMessageStatus, int]
    resolved_lately: Mapping[str, int]
    pending: int
    oldest_pending: datetime | None
    imports: int


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
            func.max(messages.last_failure).label("last"),
        )
        .where(_UNRESOLVED, *([messages.failure_seq > after] if after else []))
        .group_by(messages.cause_id)
    )
    # SUM is a NUMERIC on PostgreSQL.
    found = [
        CauseCount(**{**row, "dead": int(row["dead"]), "scheduled": int(row["scheduled"])})
        for row in tx.execute(query).mappings()
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
    for cause_id, *group in tx.execute(grouped):
        group_id, classifier, title = group
        each = FailureGroup(group_id=group_id, classifier=classifier, title=title)
        found.setdefault(cause_id, []).append(each)
    names = ("cause_id", "queue", "exception_type", "exception_message", "failure_reason")
    query = select(*(causes.c[name] for name in names)).where(
        tx.sql.member(causes.c.cause_id, cause_ids)
    )
    return {
        row["cause_id"]: CauseFacts(**row, groups=tuple(found.get(row["cause_id"], ())))
        for row in tx.execute(query).mappings()
    }


@reading
def count_others(tx: Transaction) -> OtherCounts:
    """Count what else is stored; slow if there is much. Raises DatabaseUnavailable."""
    others = messages.status.in_(_OTHERS)
    statuses = select(messages.status, func.count()).where(others).group_by(messages.status)
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
    return OtherCounts(
        statuses={FailedMessageStatus(name): count for name, count in tx.execute(statuses)},
        resolved_lately={str(name): count for name, count in tx.execute(resolved)},
        pending=pending,
        oldest_pending=oldest,
        imports=tx.execute(imports).scalar_one(),
    )
