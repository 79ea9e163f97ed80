"""What holds up messages, or everything alike, just now; `domain` says it in words."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from sqlalchemy import select

from retrier.domain.failed_message import Disposition, FailedMessageStatus
from retrier.domain.processor_work import is_waiting
from retrier.domain.retry_batch import RetryBatchStatus
from retrier.domain.retry_operation import STANDING_OPERATION, RetryOperationState
from retrier.domain.wait_reasons import (
    Obstacles,
    WaitingMessage,
    WaitReason,
    describe_rate,
    why_message_waits,
)
from retrier.store.batches import batch_from_row
from retrier.store.breaker_lists import why_each_waits
from retrier.store.engine.transaction import Transaction
from retrier.store.schema import (
    failed_message_retries,
    failed_messages,
    processor_lease,
    retry_batches,
    retry_operations,
)

operations = retry_operations.c
lease = processor_lease.c
messages = failed_messages.c
claims = failed_message_retries.c


_STAGING = select(retry_batches).where(retry_batches.c.status == RetryBatchStatus.STAGING)
_STANDING = select(operations.state, operations.next_cut, operations.rate).where(
    operations.operation_id == STANDING_OPERATION
)
_LEASE = select(lease.session_id, lease.expires_at)
_NOTHING: Mapping[int, str] = MappingProxyType({})
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


def find_obstacles(tx: Transaction) -> Obstacles:
    """Return what holds up everything alike just now."""
    holder = tx.execute(_LEASE).one_or_none()
    batches = (batch_from_row(dict(row)) for row in tx.execute(_STAGING).mappings())
    standing = tx.execute(_STANDING).one_or_none()
    stuck = next((each for each in batches if is_waiting(each, tx.now)), None)
    is_paced = standing is not None and standing.next_cut and standing.next_cut > tx.now
    return Obstacles(
        is_worked=holder is not None and bool(holder.session_id) and holder.expires_at > tx.now,
        stuck=None if stuck is None else stuck.reason or "it is tried again soon",
        stuck_of=None if stuck is None else stuck.operation_id,
        is_paused=standing is not None and standing.state == RetryOperationState.PAUSED,
        paced=describe_rate(standing.rate) if standing is not None and is_paced else None,
    )


def find_reasons(
    tx: Transaction, numbers: Sequence[int], held_behind: Mapping[int, str] = _NOTHING
) -> Mapping[int, tuple[WaitReason, ...]]:
    """Say why these messages wait, by number; `held_behind` says what holds some in their streams."""
    if not numbers:
        return {}
    rows = tx.execute(_FACTS.where(tx.sql.member(messages.number, sorted(numbers)))).all()
    breakers = why_each_waits(tx, numbers)
    facts = {
        row.number: WaitingMessage(
            status=FailedMessageStatus(row.status),
            disposition=Disposition(row.disposition),
            retry_at=row.retry_at,
            is_claimed=row.batch_id is not None,
            maybe_copy_of=row.maybe_copy_of,
            held_behind=held_behind.get(row.number),
            breaker=breakers.get(row.number),
            batch_reason=row.reason,
        )
        for row in rows
    }
    # Most messages that people look at wait for nothing: then nothing more is read.
    if not any(each.may_wait for each in facts.values()):
        return dict.fromkeys(facts, ())
    obstacles = find_obstacles(tx)
    return {number: why_message_waits(each, tx.now, obstacles) for number, each in facts.items()}
