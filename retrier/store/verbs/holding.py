"""What a breaker holds is taken out of a batch in Staging: it opened after the batch was cut."""

from collections.abc import Mapping, Sequence

from sqlalchemy import select

from retrier.domain.breakers import Breaker, BreakerState, why_waiting
from retrier.domain.failed_message import FailedMessageStatus
from retrier.domain.retry_batch import RetryBatch
from retrier.store.engine.transaction import Transaction
from retrier.store.queries.breakers import breaker_from_row
from retrier.store.queries.selections import from_json
from retrier.store.schema import failed_message_retries, failed_messages, retry_operations
from retrier.store.tables import breakers, claims, event_log, message_locks
from retrier.store.tables import retry_operations as operations
from retrier.store.tables.event_log import Entry
from retrier.store.verbs.leases import fenced


@fenced
def hold_back(
    tx: Transaction, batch: RetryBatch, held: Mapping[int, Sequence[int]]
) -> frozenset[int]:
    """Release the claims of these messages, by breaker, that are not to be sent now.

    Not what a person named, not the trial of a breaker, not what was staged before: only of
    unresolved messages it is certain that nothing was sent. They are not counted as skipped: the
    operation looks again for them when the breaker is closed. Returns the numbers of those that
    left the batch. Raises LeaseLost, DatabaseUnavailable.
    """
    # Locked first, as cuts do: who closes one of them waits, and then finds what was left out.
    holding = {row.breaker_id: breaker_from_row(row) for row in breakers.lock_not_closed(tx)}
    open_now = {key: each for key, each in holding.items() if _holds(tx, each)}
    wanted = sorted(
        {
            number
            for breaker_id, numbers in held.items()
            if breaker_id in open_now
            for number in numbers
            if not _tries(open_now[breaker_id], number)
        }
    )
    if not wanted or _is_named(tx, batch):
        return frozenset()
    freed = _release(tx, batch, wanted)
    if freed:
        operations.count_left_out(tx, batch.operation_id, len(freed))
        event_log.append(tx, [_entry(tx, batch, len(freed), open_now, held)])
    return frozenset(freed)


def _holds(tx: Transaction, breaker: Breaker) -> bool:
    return breaker.state_at(tx.now) is not BreakerState.CLOSED


def _tries(breaker: Breaker, number: int) -> bool:
    is_trial = breaker.trial is not None and breaker.trial.number == number
    return is_trial and breaker.hand is None


def _is_named(tx: Transaction, batch: RetryBatch) -> bool:
    rows = retry_operations.c
    query = select(rows.selection).where(rows.operation_id == batch.operation_id)
    return from_json(tx.execute(query).scalar_one()).ids is not None


def _release(tx: Transaction, batch: RetryBatch, numbers: Sequence[int]) -> Sequence[int]:
    message_locks.lock(tx, numbers)
    claims.lock_batch(tx, batch.batch_id)
    found, mine = failed_messages.c, failed_message_retries.c
    query = (
        select(found.number)
        .join_from(failed_messages, failed_message_retries, mine.number == found.number)
        .where(
            tx.sql.member(found.number, numbers),
            found.status == FailedMessageStatus.UNRESOLVED,
            mine.batch_id == batch.batch_id,
            mine.sending_since.is_(None),
        )
    )
    freed = tx.execute(query).scalars().all()
    claims.drop(tx, freed)
    return freed


def _entry(
    tx: Transaction,
    batch: RetryBatch,
    count: int,
    open_now: Mapping[int, Breaker],
    held: Mapping[int, Sequence[int]],
) -> Entry:
    reasons = (why_waiting(each, tx.now) for key, each in open_now.items() if key in held)
    why = "; ".join(each for each in reasons if each is not None)
    return Entry(
        kind="batch_held_back",
        text=f"{count} messages left their batch: {why}",
        operation_id=batch.operation_id,
        batch_id=batch.batch_id,
    )
