"""Staging and Forwarding: what copies are made of, and the moves of a batch up to its end."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import uuid4

from sqlalchemy import bindparam, func, select

from retrier.domain.decision import Decided
from retrier.domain.retry_batch import ClaimedMessage, RetryBatch, RetryBatchStatus, StagedCopies
from retrier.policy.policy_set import WAITING, Judge
from retrier.store import schema
from retrier.store.engine.database import reading
from retrier.store.engine.transaction import Transaction
from retrier.store.schema import (
    causes,
    failed_message_retries,
    failed_messages,
    message_redirects,
)
from retrier.store.tables import (
    claims,
    event_log,
    message_locks,
    now_forwarding,
    retry_batches,
    retry_operations,
    staging_ids,
)
from retrier.store.tables import retry_operation_messages as named
from retrier.store.tables.event_log import Entry
from retrier.store.tables.failed_messages import issue
from retrier.store.tables.message_locks import sendable
from retrier.store.verbs.breakers import NOTHING_COUNTED, Counting, add_breakers, count_claims
from retrier.store.verbs.cancelling import is_cancel_asked, release_unstamped
from retrier.store.verbs.leases import fenced
from retrier.store.verbs.retry_ends import end_batch, revert


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedRest:
    """The new batch in Staging that holds the rest of a batch that could not be completed."""

    batch_id: str
    size: int
    stage_attempts: int


@fenced
def complete_batch(tx: Transaction, batch: RetryBatch) -> int:
    """Delete batch and pointer if all its claims are recorded; return how many are not.

    The claims stay: they prevent other retries until the outcome arrives. If the operation is to be
    cancelled, those that are not stamped are released before. Raises LeaseLost,
    DatabaseUnavailable.
    """
    unrecorded = claims.count_unrecorded(tx, batch.batch_id)
    if unrecorded and is_cancel_asked(tx, batch.operation_id):
        unrecorded -= release_unstamped(tx, batch)
    if unrecorded == 0:
        end_batch(tx, batch.batch_id)
        done = Entry(
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
    """Move the unrecorded claims, with their retry ids, to a new batch in Staging.

    A batch only ever moves forward, so the old one and the pointer are deleted in the same
    transaction. Returns None if everything was recorded after all. Raises LeaseLost,
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
    moved = Entry(
        kind="batch_moved",
        text=f"{rest.size} messages were not found in the staging queue: staged again",
        operation_id=batch.operation_id,
        batch_id=rest.batch_id,
        details={"from_batch": batch.batch_id},
    )
    event_log.append(tx, [moved])


messages = failed_messages.c
retries = failed_message_retries.c
redirects = message_redirects.c

_DROPPED = "it changed after it was claimed"

# Not correlated, so the server looks at the operation once for the whole batch. By the batch and not
# by each claim: all claims of a batch are of its operation.
_OWN_DESTINATION = (
    select(schema.retry_operations.c.destination)
    .join_from(schema.retry_batches, schema.retry_operations)
    .where(schema.retry_batches.c.batch_id == bindparam("batch"))
    .scalar_subquery()
)

# Made once: SQLAlchemy takes longer to make a statement than to execute it.
_DESTINATION = func.coalesce(_OWN_DESTINATION, redirects.to_queue, causes.c.destination)
_LOAD_CLAIMED = (
    select(
        retries.number,
        messages.unique_message_id,
        retries.retry_id,
        _DESTINATION.label("destination"),
        (causes.c.destination != _DESTINATION).label("elsewhere"),
        (messages.properties_size + messages.body_size).label("size"),
    )
    .join_from(failed_message_retries, failed_messages, messages.number == retries.number)
    .join(causes, causes.c.cause_id == messages.cause_id)
    .outerjoin(message_redirects, redirects.from_queue == causes.c.destination)
    .where(retries.batch_id == bindparam("batch"), retries.forwarded_at.is_(None), sendable())
    .order_by(messages.failure_seq)
)
_LOAD_FOR_BREAKERS = _LOAD_CLAIMED.add_columns(causes.c.message_type, messages.policy)


@reading
def load_claimed(
    tx: Transaction, batch_id: str, *, for_breakers: bool = False
) -> tuple[ClaimedMessage, ...]:
    """Return the batch's unrecorded claims that hold, by failure number, with their destinations.

    That is the destination of the operation if it has one, else that of the failure, redirected.
    With what breakers ask for, if they do. Raises DatabaseUnavailable.
    """
    query = _LOAD_FOR_BREAKERS if for_breakers else _LOAD_CLAIMED
    claimed = tx.execute(query, {"batch": batch_id})
    names = tuple(claimed.keys())
    # No `mappings`: making one takes as long as reading its row.
    return tuple(ClaimedMessage(**dict(zip(names, row, strict=True))) for row in claimed.all())


@dataclass(frozen=True, slots=True, kw_only=True)
class BegunForwarding:
    """The frozen message count of a batch, and what was decided about what was ejected."""

    count: int
    decided: Sequence[Decided] = ()


@fenced
def begin_forwarding(
    tx: Transaction,
    batch: RetryBatch,
    staged: StagedCopies,
    judge: Judge = WAITING,
    counting: Counting = NOTHING_COUNTED,
) -> BegunForwarding:
    """Move a staged batch into Forwarding.

    One transaction: it freezes staging id and count, makes messages *retry issued*, sets the
    pointer, and stores the next staging ids and where the copies go. Messages that changed meanwhile lose their claims,
    and their copies are acked unsent. A batch without messages is deleted. `judge` decides what
    happens next to what was ejected; `counting` says which breakers count what becomes of the
    claims. Raises LeaseLost, DatabaseUnavailable.
    """
    breaker_ids = add_breakers(tx, counting) if counting.claims else {}
    if staged.ejected:
        # Before any row lock: an ingester that waits for our rows shares this lock already.
        tx.sql.share_cut_off(tx.conn)
    ejected = {item.number for item in staged.ejected}
    message_locks.lock(tx, sorted({*staged.numbers, *ejected}))
    claims.lock_batch(tx, batch.batch_id)
    decided = revert(tx, batch, staged.ejected, judge)
    issued = issue(tx, batch.batch_id, staged.numbers)
    dropped = claims.keep_only(tx, batch.batch_id, issued)
    named.note_dropped(tx, batch.operation_id, dropped, _DROPPED)
    if staged.next_ids:
        staging_ids.add(tx, staged.next_ids)
    if not issued:
        end_batch(tx, batch.batch_id)
        return BegunForwarding(count=0, decided=decided)
    claims.note_destinations(tx, batch.batch_id, staged.elsewhere)
    if counting.claims:
        count_claims(tx, batch.batch_id, counting, breaker_ids)
    _freeze(tx, batch, staged.staging_id, len(issued))
    return BegunForwarding(count=len(issued), decided=decided)


@fenced
def back_off_batch(tx: Transaction, batch_id: str, *, wait: timedelta, reason: str) -> None:
    """Make a batch in Staging wait; store the reason. Raises LeaseLost, DatabaseUnavailable."""
    retry_batches.back_off(tx, batch_id, wait, reason)


def _freeze(tx: Transaction, batch: RetryBatch, staging_id: str, count: int) -> None:
    retry_batches.move(
        tx,
        batch.batch_id,
        RetryBatchStatus.FORWARDING,
        staging_id=staging_id,
        message_count=count,
        not_before=None,
        reason=None,
    )
    now_forwarding.point_at(tx, batch.batch_id)
    retry_operations.go_on_its_way(tx, batch.operation_id)
    staged = Entry(
        kind="batch_staged",
        text=f"{count} messages are staged and on their way",
        operation_id=batch.operation_id,
        batch_id=batch.batch_id,
    )
    event_log.append(tx, [staged])
