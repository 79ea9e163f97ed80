"""The copies that wait to be sent to the log queue, and what they consist of."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import func, or_, select

from retrier.store.engine.database import reading
from retrier.store.engine.sql_dialect import IN_BINARY
from retrier.store.engine.transaction import Transaction
from retrier.store.schema import failed_messages, outgoing, processing_attempts

attempts = processing_attempts.c
messages = failed_messages.c
waiting = outgoing.c


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingCopy:
    """A copy to be sent. `size` counts the bytes of its properties and body.

    `unique_message_id` is None if somebody deleted the message. `put_off` says that the copy was
    refused before.
    """

    outgoing_id: int
    attempt_id: int
    queue: str
    unique_message_id: str | None
    size: int
    put_off: bool


@reading
def find_outgoing(
    tx: Transaction, limit: int, without: Collection[str] = ()
) -> tuple[WaitingCopy, ...]:
    """Return the oldest copies that are due, without those to the queues of `without`.

    Raises DatabaseUnavailable.
    """
    due = or_(waiting.not_before.is_(None), waiting.not_before <= tx.now)
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
def is_any_outgoing(tx: Transaction) -> bool:
    """Say whether any copy waits to be sent. Raises DatabaseUnavailable."""
    return tx.execute(select(waiting.outgoing_id).limit(1)).first() is not None
