"""Pending retries: sent, and neither confirmed nor failed again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Select, exists, func, select

from retrier.domain.identity import canonical, is_guid
from retrier.domain.wire import PropertyCodec
from retrier.store.engine.database import reading
from retrier.store.engine.transaction import Transaction
from retrier.store.queries.messages import ListedMessage, ShownClaim, from_row, shown_messages
from retrier.store.queries.ordering import Page, PageRequest
from retrier.store.queries.selections import Condition, sent
from retrier.store.schema import (
    causes,
    failed_message_retries,
    failed_messages,
    message_redirects,
    retry_operations,
)

claims = failed_message_retries.c
messages = failed_messages.c
redirects = message_redirects.c


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
    tx: Transaction, wanted: Waiting, page: PageRequest, codec: PropertyCodec
) -> Page[PendingRetry]:
    """Return one page of the pending retries, the longest wait first. Raises DatabaseUnavailable."""
    found = _conditions(tx, wanted)
    count = select(func.count()).select_from(failed_message_retries).where(*found)
    numbers = (
        select(claims.number)
        .where(*found)
        .order_by(claims.forwarded_at, claims.number)
        .limit(page.size)
        .offset(page.offset)
    )
    items = _load(tx, tx.execute(numbers).scalars().all(), codec)
    return Page(items=items, total=tx.execute(count).scalar_one())


def _conditions(tx: Transaction, wanted: Waiting) -> list[Condition]:
    longer = wanted.for_longer_than
    found = list(sent(None if longer is None else tx.now - longer))
    if wanted.operation_id is not None:
        known = is_guid(wanted.operation_id)
        found.append(claims.operation_id == (canonical(wanted.operation_id) if known else None))
    if wanted.queue is not None:
        same = messages.number == claims.number, messages.cause_id == causes.c.cause_id
        found.append(exists().where(*same, causes.c.queue == wanted.queue))
    return found


def _with_ways(query: Select[Any]) -> Select[Any]:
    """Join to a query of messages what decided where their retries went."""
    return (
        query.join(failed_message_retries, claims.number == messages.number)
        # A redirect that was made later did not change where this one went.
        .outerjoin(
            message_redirects,
            (redirects.from_queue == causes.c.destination)
            & (redirects.modified_at <= claims.sending_since),
        )
        # Outer: retention may have deleted the operation, and keeps its claims.
        .outerjoin(retry_operations, retry_operations.c.operation_id == claims.operation_id)
    )


_SENT_TO = func.coalesce(
    retry_operations.c.destination, redirects.to_queue, causes.c.destination
).label("sent_to")


def find_sent_to(tx: Transaction, number: int) -> str | None:
    """Return the queue to which the retry of a message was sent; None if it was not sent yet."""
    joined = select(_SENT_TO).join_from(
        failed_messages, causes, causes.c.cause_id == messages.cause_id
    )
    found = _with_ways(joined).where(messages.number == number, claims.sending_since.is_not(None))
    return tx.execute(found).scalar_one_or_none()


def _load(
    tx: Transaction, numbers: Sequence[int], codec: PropertyCodec
) -> tuple[PendingRetry, ...]:
    columns = (claims.batch_id, claims.operation_id, claims.retry_id)
    times = (claims.sending_since, claims.forwarded_at)
    query = _with_ways(shown_messages(*columns, *times, _SENT_TO)).where(
        tx.sql.member(messages.number, numbers)
    )
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
