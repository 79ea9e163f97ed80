"""Pending retries: sent, and neither confirmed nor failed again; and those presumed handled."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Select, exists, func, select

from retrier.domain.failed_message import RetryEnd
from retrier.domain.identity import canonical, is_guid
from retrier.domain.outcomes import RetryOutcome
from retrier.domain.selection import Selection
from retrier.domain.text import count_messages
from retrier.domain.values import dataclass
from retrier.domain.wire import PropertyCodec
from retrier.store import claims, event_log, messages, operations
from retrier.store.engine.database import reading
from retrier.store.engine.sql_dialect import by_code_point
from retrier.store.engine.transaction import Transaction
from retrier.store.event_log import Entry
from retrier.store.lease import fenced
from retrier.store.message_lists import (
    WIDE,
    ListedMessage,
    Page,
    PageRequest,
    ShownClaim,
    from_row,
    ids_of,
    shown_messages,
)
from retrier.store.messages import lock_presumable
from retrier.store.recovery import find_recovery
from retrier.store.redirects import REDIRECTED_FROM
from retrier.store.schema import (
    causes,
    failed_message_retries,
    failed_messages,
    message_redirects,
)
from retrier.store.schema.messages import ISSUED
from retrier.store.selections import Condition, conditions, sent

claim_columns = failed_message_retries.c
message_columns = failed_messages.c
redirects = message_redirects.c


PRESUMED_AT_ONCE = 500
"""How many messages one transaction presumes to have succeeded, at most."""


@reading
def find_presumable(
    tx: Transaction, sent_for: timedelta, after: int, as_of: datetime | None = None
) -> Sequence[int]:
    """Return the next messages after the number `after` whose retry was sent that long ago, also `as_of` then.

    In the order of their numbers, by the key of the claims. No index has the time: it would be
    written whenever a window is recorded. Locks nothing; what is found is looked at again.
    Nothing is found during a recovery. Raises DatabaseUnavailable.
    """
    if find_recovery(tx) is not None:
        return ()
    due = (
        select(claim_columns.number)
        .where(
            claim_columns.number > after, claim_columns.forwarded_at <= tx.agreed(as_of) - sent_for
        )
        .order_by(claim_columns.number)
        .limit(PRESUMED_AT_ONCE)
    )
    return tx.execute(due).scalars().all()


@reading
def time_before(tx: Transaction, ago: timedelta) -> datetime:
    """Return the time so long ago, by the database's clock. Raises DatabaseUnavailable."""
    return tx.now - ago


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Which pending retries are listed; None is no condition. `queue` is where they failed."""

    queue: str | None = None
    operation_id: str | None = None
    for_longer_than: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingRetry:
    """A pending retry: its message and claim, the queue it was sent to, and since when it waits."""

    message: ListedMessage
    claim: ShownClaim
    sent_to: str
    waits: timedelta


@reading
def list_pending(
    tx: Transaction,
    wanted: Waiting,
    page: PageRequest,
    codec: PropertyCodec,
    *,
    wide: int = WIDE,
) -> Page[PendingRetry]:
    """Return one page of the pending retries, the longest wait first. Raises DatabaseUnavailable."""
    found = _find(tx, wanted, page, wide)
    return Page(items=_load(tx, found.items, codec), total=found.total, next=found.next)


@reading
def list_pending_ids(tx: Transaction, wanted: Waiting, page: PageRequest) -> Page[str]:
    """Return the ids of the messages on such a page. Raises DatabaseUnavailable."""
    found = _find(tx, wanted, page, WIDE)
    return Page(items=ids_of(tx, found.items), total=found.total, next=found.next)


def _find(tx: Transaction, wanted: Waiting, page: PageRequest, wide: int) -> Page[int]:
    found = _conditions(tx, wanted)
    total = _count(tx, wanted, found) if page.after is None else page.after.total
    keys = (claim_columns.forwarded_at, claim_columns.number)
    numbers = _numbers(wanted.queue, [*found, *page.behind(*keys)], wide=total >= wide)
    query = numbers.add_columns(claim_columns.forwarded_at).order_by(*keys)
    rows = tx.execute(query.limit(page.size).offset(page.offset)).all()
    place = page.next_place(total, rows, lambda last: [last.forwarded_at, last.number])
    return Page(items=tuple(row.number for row in rows), total=total, next=place)


def _conditions(tx: Transaction, wanted: Waiting) -> list[Condition]:
    """Return the conditions of the claim itself."""
    longer = wanted.for_longer_than
    found = list(sent(None if longer is None else tx.now - longer))
    if wanted.operation_id is not None:
        known = is_guid(wanted.operation_id)
        found.append(
            claim_columns.operation_id == (canonical(wanted.operation_id) if known else None)
        )
    return found


def _numbers(queue: str | None, found: Sequence[Condition], *, wide: bool) -> Select[Any]:
    """Return the query of the messages whose claims match; if many do, their time leads to them."""
    query = select(claim_columns.number).where(*found)
    if queue is None:
        return query
    if wide:
        same = (
            message_columns.number == claim_columns.number,
            message_columns.cause_id == causes.c.cause_id,
        )
        return query.where(exists().where(*same, causes.c.queue == queue))
    return query.join(failed_messages, message_columns.number == claim_columns.number).where(
        *_issued(queue)
    )


def _issued(queue: str) -> tuple[Condition, ...]:
    """Return the conditions that a message failed on a queue, and that its retry was issued.

    What was sent and has no outcome is in this state: claims are taken away with it.
    """
    of_queue = select(causes.c.cause_id).where(causes.c.queue == queue)
    return ISSUED, message_columns.cause_id.in_(of_queue)


def _count(tx: Transaction, wanted: Waiting, found: Sequence[Condition]) -> int:
    if wanted.queue is None or wanted != Waiting(queue=wanted.queue):
        numbers = _numbers(wanted.queue, found, wide=False).subquery()
        return int(tx.execute(select(func.count()).select_from(numbers)).scalar_one())
    # All of a queue may be very many: an index has their number, and few of them are not sent yet.
    issued = select(func.count()).select_from(failed_messages).where(*_issued(wanted.queue))
    unsent = _numbers(wanted.queue, [claim_columns.forwarded_at.is_(None)], wide=False).subquery()
    more = tx.execute(select(func.count()).select_from(unsent)).scalar_one()
    return max(0, int(tx.execute(issued).scalar_one()) - int(more))


# Noted when its batch was staged: what was redirected later did not change where this one went.
_SENT_TO = func.coalesce(claim_columns.sent_to, causes.c.destination).label("sent_to")


def find_sent_to(tx: Transaction, number: int) -> str | None:
    """Return the queue to which the retry of a message was sent; None if it was not sent yet."""
    joined = select(_SENT_TO).join_from(
        failed_messages, causes, causes.c.cause_id == message_columns.cause_id
    )
    claimed = joined.join(failed_message_retries, claim_columns.number == message_columns.number)
    found = claimed.where(
        message_columns.number == number, claim_columns.sending_since.is_not(None)
    )
    return tx.execute(found).scalar_one_or_none()


def _load(
    tx: Transaction, numbers: Sequence[int], codec: PropertyCodec
) -> tuple[PendingRetry, ...]:
    columns = (claim_columns.batch_id, claim_columns.operation_id, claim_columns.retry_id)
    times = (claim_columns.sending_since, claim_columns.forwarded_at)
    shown = shown_messages(*columns, *times, _SENT_TO)
    query = shown.join(
        failed_message_retries, claim_columns.number == message_columns.number
    ).where(tx.sql.member(message_columns.number, numbers))
    rows = {row["number"]: dict(row) for row in tx.execute(query).mappings()}
    return tuple(_pending(tx, rows[number], codec) for number in numbers if number in rows)


def _pending(tx: Transaction, row: Mapping[str, Any], codec: PropertyCodec) -> PendingRetry:
    names = ShownClaim.__dataclass_fields__
    return PendingRetry(
        message=from_row(row, codec),
        claim=ShownClaim(**{name: row[name] for name in names}),
        sent_to=row["sent_to"],
        # The database's clock may have been set back.
        waits=max(timedelta(0), tx.now - row["forwarded_at"]),
    )


@reading
def count_next_destinations(
    tx: Transaction, selection: Selection, most: int
) -> tuple[tuple[str, int], ...]:
    """Return to which queues pending retries would go if they were sent again, the fullest first.

    Of a selection only what is pending is counted. Raises DatabaseUnavailable.
    """
    queue = func.coalesce(redirects.to_queue, causes.c.destination).label("queue")
    count = func.count().label("count")
    named = [] if selection.ids is None else [_is_one_of(tx, selection.ids)]
    query = (
        select(queue, count)
        .join_from(
            failed_message_retries, failed_messages, message_columns.number == claim_columns.number
        )
        .join(causes, causes.c.cause_id == message_columns.cause_id)
        .outerjoin(message_redirects, redirects.from_queue == REDIRECTED_FROM)
        .where(claim_columns.forwarded_at.is_not(None), *named, *conditions(selection))
        .group_by(queue)
        .order_by(count.desc(), by_code_point(queue))
        .limit(most)
    )
    return tuple((row.queue, row[1]) for row in tx.execute(query))


def _is_one_of(tx: Transaction, ids: Sequence[str]) -> Condition:
    known = [canonical(each) for each in ids if is_guid(each)]
    return tx.sql.member(message_columns.unique_message_id, known)


@fenced
def presume(
    tx: Transaction, sent_for: timedelta, numbers: Sequence[int], as_of: datetime | None = None
) -> int:
    """Resolve those of these messages whose retry was sent that long ago, also `as_of` then.

    Return how many. One transaction, by the database's clock. What changed since it was found, or is being changed,
    stays as it is, and so does all during a recovery. One event tells of all of them: what became of each is in its own rows. Raises
    LeaseLost, DatabaseUnavailable.
    """
    if find_recovery(tx) is not None:
        return 0
    sent_before = tx.agreed(as_of) - sent_for
    due = lock_presumable(tx, numbers, sent_before)
    if not due:
        return 0
    presumed = claims.count_sent(tx, due)
    claims.keep_claimed(tx, due, RetryEnd.PRESUMED)
    claims.drop(tx, due)
    messages.presume(tx, due)
    sent = Counter({(key, RetryOutcome.PRESUMED): count for key, count in presumed.items()})
    operations.count_outcomes(tx, sent)
    text = (
        f"{count_messages(len(due))} resolved: what was sent before "
        f"{sent_before:%Y-%m-%d %H:%M:%S}Z and did not come back is presumed to have succeeded"
    )
    event_log.append(tx, [Entry(kind="retries_presumed", text=text)])
    return len(due)
