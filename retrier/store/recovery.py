"""The recovery after a restore (`recovery`): at most one row, while nothing is presumed."""

from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, and_, case, delete, func, select

from retrier.domain.recovery import Recovery, RecoveryRefusal
from retrier.domain.values import dataclass
from retrier.store import event_log, lease
from retrier.store.engine.database import reading, writing
from retrier.store.engine.sql_dialect import by_code_point
from retrier.store.engine.transaction import Transaction
from retrier.store.event_log import Entry
from retrier.store.schema import causes, failed_message_retries, failed_messages, recovery
from retrier.store.schema.messages import ISSUED

claims = failed_message_retries.c
messages = failed_messages.c


@dataclass(frozen=True, slots=True, kw_only=True)
class OnItsWay:
    """What was on its way of the messages that failed on a queue.

    `sent` have no outcome, and only a person can say whether they have one; `sent_before` neither,
    but were sent long before the backup. The processor sends those `in_doubt` once more, and those `not_sent`.
    """

    queue: str
    sent: int
    sent_before: int
    in_doubt: int
    not_sent: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovering:
    """A recovery that is under way, and what was on its way, by queue."""

    recovery: Recovery
    queues: tuple[OnItsWay, ...]


def find_recovery(tx: Transaction) -> Recovery | None:
    """Return the recovery that is under way: nothing is presumed meanwhile."""
    columns = (recovery.c.since, recovery.c.begun_at, recovery.c.begun_by)
    row = tx.execute(select(*columns)).mappings().one_or_none()
    return None if row is None else Recovery(**row)


@reading
def get_recovery(tx: Transaction) -> Recovery | None:
    """Return the recovery that is under way, None if none is. Raises DatabaseUnavailable."""
    return find_recovery(tx)


@reading
def list_recovering(tx: Transaction) -> Recovering | None:
    """Return what was on its way in all queues; None if no recovery is under way.

    Reads all claims: no index has their times. Raises DatabaseUnavailable.
    """
    found = find_recovery(tx)
    if found is None:
        return None
    recorded = claims.forwarded_at
    columns = {
        "sent": and_(ISSUED, recorded.between(found.sent_from, found.begun_at)),
        "sent_before": and_(ISSUED, recorded < found.sent_from),
        "in_doubt": and_(claims.sending_since.is_not(None), recorded.is_(None)),
        "not_sent": claims.sending_since.is_(None),
    }
    query = (
        select(causes.c.queue, *(_count(each).label(name) for name, each in columns.items()))
        .join_from(failed_message_retries, failed_messages, messages.number == claims.number)
        .join(causes, causes.c.cause_id == messages.cause_id)
        .group_by(causes.c.queue)
        .order_by(by_code_point(causes.c.queue))
    )
    queues = (OnItsWay(**row) for row in tx.execute(query).mappings())
    return Recovering(recovery=found, queues=tuple(queues))


def _count(condition: ColumnElement[bool]) -> ColumnElement[Any]:
    return func.count(case((condition, 1)))


@writing
def begin_recovery(tx: Transaction, since: datetime, who: str) -> Recovery | RecoveryRefusal:
    """Begin a recovery, or change the time of the backup of one that is under way.

    Once this is committed nothing is presumed any more. Raises DatabaseUnavailable.
    """
    # A transaction that presumes holds the lease: this waits for one that found no recovery.
    lease.lock(tx)
    if since > tx.now:
        return RecoveryRefusal.NOT_YET
    row = {"id": 1, "since": since, "begun_at": tx.now, "begun_by": event_log.short(who)}
    insert = tx.sql.insert(recovery).values(row)
    # Of one that is under way only the time of the backup is changed.
    tx.execute(insert.on_conflict_do_update(index_elements=["id"], set_={"since": since}))
    begun = find_recovery(tx)
    if begun is None:
        raise AssertionError("the row that was just written is gone")
    text = f"nothing is presumed: a backup of {since:%Y-%m-%d %H:%M:%S}Z was restored"
    event_log.append(tx, [Entry(kind="recovery_begun", text=text, who=who)])
    return begun


@writing
def end_recovery(tx: Transaction, who: str) -> bool:
    """End the recovery; false if none is under way. Raises DatabaseUnavailable."""
    if not tx.execute(delete(recovery)).rowcount:
        return False
    text = "the recovery is over: what was sent long ago may be presumed to have succeeded"
    event_log.append(tx, [Entry(kind="recovery_ended", text=text, who=who)])
    return True
