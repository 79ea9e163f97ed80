"""What holds up everything alike: nobody works, a batch cannot go on, what is due is paused."""

from sqlalchemy import select

from retrier.domain.processor_work import is_waiting
from retrier.domain.retry_batch import RetryBatchStatus
from retrier.domain.retry_operation import STANDING_OPERATION, RetryOperationState
from retrier.domain.waiting import Obstacles, tell_pace
from retrier.store.engine.transaction import Transaction
from retrier.store.queries.batches import batch_from_row
from retrier.store.schema import processor_lease, retry_batches, retry_operations

operations = retry_operations.c
lease = processor_lease.c
_STAGING = select(retry_batches).where(retry_batches.c.status == RetryBatchStatus.STAGING)
_STANDING = select(operations.state, operations.next_cut, operations.rate).where(
    operations.operation_id == STANDING_OPERATION
)
_LEASE = select(lease.session_id, lease.expires_at)


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
        paced=tell_pace(standing.rate) if standing is not None and is_paced else None,
    )
