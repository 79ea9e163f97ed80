"""Forwarding: a batch is completed, or its rest moves on."""

from dataclasses import dataclass
from uuid import uuid4

from retrier.domain.retry_batch import RetryBatch, RetryBatchStatus
from retrier.store.engine.transaction import Transaction
from retrier.store.tables import claims, event_log, retry_batches
from retrier.store.tables.event_log import Event
from retrier.store.verbs.ending import end_batch
from retrier.store.verbs.fencing import fenced


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedRest:
    """What a batch that could not be completed left: a new batch in Staging."""

    batch_id: str
    size: int
    stage_attempts: int


@fenced
def complete_batch(tx: Transaction, batch: RetryBatch) -> int:
    """Delete the batch and the pointer if no claim of it is unrecorded; return how many are.

    The claims stay: they keep other retries off until the outcome arrives. Raises LeaseLost,
    DatabaseUnavailable.
    """
    unrecorded = claims.count_unrecorded(tx, batch.batch_id)
    if unrecorded == 0:
        end_batch(tx, batch.batch_id)
        done = Event(
            kind="batch_forwarded",
            text=f"the batch of {batch.message_count} messages is done",
            operation_id=batch.operation_id,
            batch_id=batch.batch_id,
        )
        event_log.append(tx, [done])
    return unrecorded


@fenced
def move_rest(
    tx: Transaction, batch: RetryBatch, *, session_id: str, made_progress: bool
) -> MovedRest | None:
    """Move what is not recorded into a new batch in Staging, claims and retry ids and all.

    A batch only ever moves forward, so the old one and the pointer are deleted in the same
    transaction. None when everything was recorded after all. Raises LeaseLost,
    DatabaseUnavailable.
    """
    claims.lock_batch(tx, batch.batch_id)
    size = claims.count_unrecorded(tx, batch.batch_id)
    end_batch(tx, batch.batch_id)
    if size == 0:
        return None
    rest = MovedRest(
        batch_id=str(uuid4()),
        size=size,
        stage_attempts=0 if made_progress else batch.stage_attempts + 1,
    )
    _add_rest(tx, batch, rest, session_id)
    claims.move_rest(tx, batch.batch_id, rest.batch_id)
    return rest


def _add_rest(tx: Transaction, batch: RetryBatch, rest: MovedRest, session_id: str) -> None:
    retry_batches.add(
        tx,
        {
            "batch_id": rest.batch_id,
            "operation_id": batch.operation_id,
            "session_id": session_id,
            "status": RetryBatchStatus.STAGING,
            "initial_size": rest.size,
            "stage_attempts": rest.stage_attempts,
            "created_at": batch.created_at,
        },
    )
    moved = Event(
        kind="batch_moved",
        text=f"{rest.size} messages were not seen again in the staging queue: staged anew",
        operation_id=batch.operation_id,
        batch_id=rest.batch_id,
        details={"from_batch": batch.batch_id},
    )
    event_log.append(tx, [moved])
