"""What may hold messages, besides their streams, is looked up here; `domain` decides."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from sqlalchemy import select

from retrier.domain.failed_message import Disposition, FailedMessageStatus
from retrier.domain.waiting import Reason, WaitingMessage, why_message_waits
from retrier.store.engine.transaction import Transaction
from retrier.store.queries.breaker_waits import why_each_waits
from retrier.store.queries.obstacles import find_obstacles
from retrier.store.schema import failed_message_retries, failed_messages, retry_batches

messages = failed_messages.c
_NOTHING: Mapping[int, str] = MappingProxyType({})
claims = failed_message_retries.c
_FACTS = (
    select(
        messages.number,
        messages.status,
        messages.disposition,
        messages.retry_at,
        messages.maybe_copy_of,
        claims.batch_id,
        retry_batches.c.reason,
    )
    .outerjoin_from(failed_messages, failed_message_retries, claims.number == messages.number)
    .outerjoin(retry_batches, retry_batches.c.batch_id == claims.batch_id)
)


def find_reasons(
    tx: Transaction, numbers: Sequence[int], held_behind: Mapping[int, str] = _NOTHING
) -> Mapping[int, tuple[Reason, ...]]:
    """Say why these messages wait, by number; `held_behind` says what holds some in their streams."""
    if not numbers:
        return {}
    rows = tx.execute(_FACTS.where(tx.sql.member(messages.number, sorted(numbers)))).all()
    breakers, obstacles = why_each_waits(tx, numbers), find_obstacles(tx)
    return {
        row.number: why_message_waits(
            WaitingMessage(
                status=FailedMessageStatus(row.status),
                disposition=Disposition(row.disposition),
                retry_at=row.retry_at,
                is_claimed=row.batch_id is not None,
                maybe_copy_of=row.maybe_copy_of,
                held_behind=held_behind.get(row.number),
                breaker=breakers.get(row.number),
                batch_reason=row.reason,
            ),
            tx.now,
            obstacles,
        )
        for row in rows
    }
