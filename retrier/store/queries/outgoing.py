"""The copies and notices that wait to be sent, and what they consist of."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import func, or_, select

from retrier.domain.wire import PropertyCodec
from retrier.store.engine.database import reading
from retrier.store.engine.sql_dialect import IN_BINARY
from retrier.store.engine.transaction import Transaction
from retrier.store.queries.messages import SOURCES, texts_of
from retrier.store.schema import causes, failed_messages, outgoing, processing_attempts

attempts = processing_attempts.c
messages = failed_messages.c
waiting = outgoing.c


_LONGEST = timedelta(minutes=5)
"""Longer than any copy is put off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingCopy:
    """A copy to be sent, or a notice. `size` counts the bytes of the failure's properties and body.

    `unique_message_id` is None if somebody deleted the message. `put_off` says that the copy was
    refused before. `notice` is what the notice of a dead message says; None for a copy.
    """

    outgoing_id: int
    attempt_id: int
    queue: str
    unique_message_id: str | None
    size: int
    put_off: bool
    notice: Mapping[str, object] | None = None


@reading
def find_outgoing(
    tx: Transaction, limit: int, without: Collection[str] = ()
) -> tuple[WaitingCopy, ...]:
    """Return the oldest copies that are due, without those to the queues of `without`.

    Raises DatabaseUnavailable.
    """
    due = or_(
        waiting.not_before.is_(None),
        waiting.not_before <= tx.now,
        # Nothing is put off for that long: the clock was set back.
        waiting.not_before > tx.now + _LONGEST,
    )
    # The limit comes before the joins: what is joined is then found by its keys, however many wait.
    first = select(outgoing).where(due).order_by(waiting.outgoing_id).limit(limit)
    if without:
        first = first.where(waiting.queue.not_in(without))
    rows = first.subquery().c
    holder = processing_attempts.alias().c
    size = func.length(attempts.raw_properties) + func.length(
        func.coalesce(attempts.body, holder.body)
    )
    query = (
        select(
            rows.outgoing_id,
            rows.attempt_id,
            rows.queue,
            messages.unique_message_id,
            func.coalesce(size, 0).label("size"),
            rows.reason.is_not(None).label("put_off"),
            rows.notice,
        )
        .select_from(rows.outgoing_id.table)
        .outerjoin(failed_messages, messages.number == rows.number)
        .outerjoin(processing_attempts, attempts.attempt_id == rows.attempt_id)
        .outerjoin(holder.attempt_id.table, holder.attempt_id == attempts.same_body_as)
        .order_by(rows.outgoing_id)
    )
    return tuple(WaitingCopy(**row) for row in tx.execute(query).mappings())


@reading
def load_contents(tx: Transaction, attempt_ids: Sequence[int]) -> Mapping[int, tuple[bytes, bytes]]:
    """Return properties and body of these attempts; those that were deleted are left out.

    Raises DatabaseUnavailable.
    """
    holder = processing_attempts.alias()
    body = func.coalesce(attempts.body, holder.c.body)
    query = (
        select(attempts.attempt_id, attempts.raw_properties, body)
        .outerjoin_from(processing_attempts, holder, holder.c.attempt_id == attempts.same_body_as)
        .where(tx.sql.member(attempts.attempt_id, attempt_ids), body.is_not(None))
        .execution_options(**{IN_BINARY: True})
    )
    return {row[0]: (bytes(row[1]), bytes(row[2])) for row in tx.execute(query)}


@reading
def load_exceptions(
    tx: Transaction, attempt_ids: Sequence[int], codec: PropertyCodec
) -> Mapping[int, str | None]:
    """Return the message of the exception of each of these attempts; deleted ones are left out.

    Raises DatabaseUnavailable.
    """
    query = (
        select(attempts.attempt_id, *SOURCES)
        .join_from(processing_attempts, causes, causes.c.cause_id == attempts.cause_id)
        .where(tx.sql.member(attempts.attempt_id, attempt_ids))
    )
    rows = tx.execute(query).mappings()
    return {row["attempt_id"]: texts_of(dict(row), codec).exception_message for row in rows}


@reading
def is_any_outgoing(tx: Transaction) -> bool:
    """Say whether any copy waits to be sent. Raises DatabaseUnavailable."""
    return tx.execute(select(waiting.outgoing_id).limit(1)).first() is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingCounts:
    """How many copies and notices wait to be sent to a queue, since when, and why not sooner."""

    queue: str
    is_notice: bool
    count: int
    oldest: datetime
    reason: str | None


@reading
def count_outgoing(tx: Transaction) -> tuple[OutgoingCounts, ...]:
    """Count what waits to be sent, by queue. Raises DatabaseUnavailable."""
    is_notice = waiting.notice.is_not(None).label("is_notice")
    query = (
        select(
            waiting.queue,
            is_notice,
            func.count().label("count"),
            func.min(waiting.created_at).label("oldest"),
            func.max(waiting.reason).label("reason"),
        )
        .group_by(waiting.queue, is_notice)
        .order_by(waiting.queue, is_notice)
    )
    rows = tx.execute(query).mappings()
    return tuple(
        OutgoingCounts(**row | {"is_notice": bool(row["is_notice"])}) for row in map(dict, rows)
    )
