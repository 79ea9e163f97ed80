"""Counts of messages by cause, status and disposition (`message_counts`), for totals of lists.

PostgreSQL keeps them: triggers of `failed_messages` add a row for each change of a count, in the
transaction that makes it, whichever statement that is. The sum of its rows is a count (decision
0158). `fold` makes one row of many. SQLite has no rows here: there all is counted.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace

from sqlalchemy import and_, delete, distinct, func, insert, or_, select, tuple_

from retrier.domain.failed_message import FailedMessageStatus
from retrier.domain.selection import Selection
from retrier.store.engine.database import writing
from retrier.store.engine.transaction import Transaction
from retrier.store.schema import failed_messages, message_counts
from retrier.store.selections import causes_of

counts = message_counts.c
messages = failed_messages.c

_KIND = (counts.cause_id, counts.status, counts.disposition)
_SUM = func.coalesce(func.sum(counts.change), 0)


def find_total(tx: Transaction, wanted: Selection) -> int | None:
    """Return how many messages are meant; None if that is to be counted.

    It is known of statuses, and of what makes a set of causes: a queue, a group, a type.
    """
    if not tx.sql.keeps_counts or not _is_of_causes(wanted):
        return None
    query = select(_SUM)
    if wanted.statuses:
        query = query.where(counts.status.in_(sorted(wanted.statuses)))
    of_causes = causes_of(wanted)
    if of_causes is not None:
        query = query.where(counts.cause_id.in_(of_causes))
    return int(tx.execute(query).scalar_one())


def _is_of_causes(wanted: Selection) -> bool:
    others = replace(wanted, group=None, queue=None, endpoint=None)
    others = replace(others, message_type=None, exception_type=None)
    return others == Selection(statuses=wanted.statuses)


def count_statuses(
    tx: Transaction, statuses: Collection[FailedMessageStatus]
) -> Mapping[FailedMessageStatus, int]:
    """Return how many messages have each of these statuses; those that none has are left out."""
    query = select(messages.status, func.count()).where(messages.status.in_(sorted(statuses)))
    query = query.group_by(messages.status)
    if tx.sql.keeps_counts:
        query = (
            select(counts.status, func.sum(counts.change))
            .where(counts.status.in_(sorted(statuses)))
            .group_by(counts.status)
            .having(func.sum(counts.change) != 0)
        )
    return {FailedMessageStatus(name): int(count) for name, count in tx.execute(query)}


def count_wrong(tx: Transaction) -> int:
    """Return how many kinds of messages have another count than the messages say."""
    if not tx.sql.keeps_counts:
        return 0
    stored = (
        select(messages.cause_id, messages.status, messages.disposition, func.count().label("n"))
        .group_by(messages.cause_id, messages.status, messages.disposition)
        .subquery()
    )
    kept = (
        select(*_KIND, func.sum(counts.change).label("n"))
        .group_by(*_KIND)
        .having(func.sum(counts.change) != 0)
        .subquery()
    )
    same = and_(
        stored.c.cause_id == kept.c.cause_id,
        stored.c.status == kept.c.status,
        stored.c.disposition == kept.c.disposition,
    )
    query = select(func.count()).select_from(stored.outerjoin(kept, same, full=True))
    differ = or_(stored.c.n.is_(None), kept.c.n.is_(None), stored.c.n != kept.c.n)
    return int(tx.execute(query.where(differ)).scalar_one())


SLACK = 10_000
"""Rows that may be more than one for each kind: reading so many takes a few milliseconds."""


@writing
def fold(tx: Transaction, slack: int = SLACK) -> int:
    """Make one row of all that count the same, if there are many; return how many it folded.

    Half of the rows have to be more than is needed, so what it costs is in proportion to what was
    added. Two that do it at the same time each fold what they have deleted themselves. Raises
    DatabaseUnavailable.
    """
    if not tx.sql.keeps_counts:
        return 0
    rows, kinds = tx.execute(select(func.count(), func.count(distinct(tuple_(*_KIND))))).one()
    if rows <= 2 * kinds + slack:
        return 0
    gone = delete(message_counts).returning(*_KIND, counts.change).cte("gone")
    of_kind = (gone.c.cause_id, gone.c.status, gone.c.disposition)
    summed = (
        select(*of_kind, func.sum(gone.c.change))
        .group_by(*of_kind)
        .having(func.sum(gone.c.change) != 0)
    )
    names = ["cause_id", "status", "disposition", "change"]
    tx.execute(insert(message_counts).from_select(names, summed))
    return int(rows)
