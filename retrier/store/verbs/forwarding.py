"""Forwarding: windows are recorded and stamped, a batch is completed, or its rest moves on."""

from dataclasses import dataclass
from datetime import datetime
from functools import partial
from uuid import uuid4

from sqlalchemy import Connection, update

from retrier.domain.retry_batch import (
    RetryBatch,
    RetryBatchStatus,
)
from retrier.store import batches, event_log
from retrier.store import claims as claim_rows
from retrier.store.database import Database
from retrier.store.event_log import Event
from retrier.store.lease import Fence, hold
from retrier.store.schema import (
    failed_message_retries,
    failed_messages,
    retry_batches,
)

messages = failed_messages.c
claims = failed_message_retries.c


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedRest:
    """What a batch that could not be completed left: a new batch in Staging."""

    batch_id: str
    size: int
    stage_attempts: int


def complete_batch(db: Database, fence: Fence, batch: RetryBatch) -> int:
    """Delete the batch and the pointer if no claim of it is unrecorded; return how many are.

    The claims stay: they keep other retries off until the outcome arrives. Raises LeaseLost,
    DatabaseUnavailable.
    """
    return db.transact(partial(_complete, db, fence, batch))


def move_rest(
    db: Database, fence: Fence, batch: RetryBatch, *, session_id: str, made_progress: bool
) -> MovedRest | None:
    """Move what is not recorded into a new batch in Staging, claims and retry ids and all.

    A batch only ever moves forward, so the old one and the pointer are deleted in the same
    transaction. None when everything was recorded after all. Raises LeaseLost,
    DatabaseUnavailable.
    """
    return db.transact(partial(_move_rest, db, fence, batch, session_id, made_progress))


def _complete(db: Database, fence: Fence, batch: RetryBatch, conn: Connection) -> int:
    now = hold(db, conn, fence)
    unrecorded = claim_rows.count_unrecorded(conn, batch.batch_id)
    if unrecorded == 0:
        batches.delete_batch(conn, batch.batch_id)
        done = Event(
            kind="batch_forwarded",
            text=f"the batch of {batch.message_count} messages is done",
            operation_id=batch.operation_id,
            batch_id=batch.batch_id,
        )
        event_log.append(conn, now, [done])
    return unrecorded


def _move_rest(
    db: Database,
    fence: Fence,
    batch: RetryBatch,
    session_id: str,
    made_progress: bool,  # noqa: FBT001 - bound by name above
    conn: Connection,
) -> MovedRest | None:
    now = hold(db, conn, fence)
    claim_rows.lock_batch(conn, batch.batch_id)
    size = claim_rows.count_unrecorded(conn, batch.batch_id)
    batches.delete_batch(conn, batch.batch_id)
    if size == 0:
        return None
    rest = MovedRest(
        batch_id=str(uuid4()),
        size=size,
        stage_attempts=0 if made_progress else batch.stage_attempts + 1,
    )
    _insert_rest(conn, batch, rest, session_id, now)
    conn.execute(
        update(failed_message_retries)
        .where(claims.batch_id == batch.batch_id, claims.forwarded_at.is_(None))
        .values(batch_id=rest.batch_id)
    )
    return rest


def _insert_rest(
    conn: Connection, batch: RetryBatch, rest: MovedRest, session_id: str, now: datetime
) -> None:
    conn.execute(
        retry_batches.insert().values(
            batch_id=rest.batch_id,
            operation_id=batch.operation_id,
            session_id=session_id,
            status=RetryBatchStatus.STAGING,
            initial_size=rest.size,
            stage_attempts=rest.stage_attempts,
            created_at=batch.created_at,
            modified_at=now,
        )
    )
    moved = Event(
        kind="batch_moved",
        text=f"{rest.size} messages were not seen again in the staging queue: staged anew",
        operation_id=batch.operation_id,
        batch_id=rest.batch_id,
        details={"from_batch": batch.batch_id},
    )
    event_log.append(conn, now, [moved])
