"""Staging and Forwarding: what copies are made of, the windows, and the end of a batch."""

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from functools import cache
from typing import Any
from uuid import uuid4

from sqlalchemy import Select, bindparam, func, select

from retrier.domain.decision import Decided
from retrier.domain.edits import EditState
from retrier.domain.outcomes import RetryOutcome
from retrier.domain.retry_batch import (
    NOTHING_FINISHED,
    ClaimedMessage,
    RetryBatch,
    RetryBatchStatus,
    StagedCopies,
    StampedMessage,
    StoredOriginal,
    WindowResult,
)
from retrier.domain.retry_operation import RetryType
from retrier.domain.text import count_messages
from retrier.domain.values import dataclass
from retrier.policy.policy_set import WAITING, Judge
from retrier.store import batches, claims, edits, event_log, messages, operations
from retrier.store.attempts import NAMED_BY_ANY, find_steps, select_originals
from retrier.store.breakers import NOTHING_COUNTED, Counting, add_breakers, count_claims, count_sent
from retrier.store.engine.database import reading
from retrier.store.engine.sql_dialect import SqlDialect
from retrier.store.engine.transaction import Transaction
from retrier.store.event_log import Entry
from retrier.store.lease import fenced
from retrier.store.messages import issue, sendable
from retrier.store.redirects import REDIRECTED_FROM
from retrier.store.retry_ends import end_batch, is_cancel_asked, release_unstamped, revert
from retrier.store.schema import (
    causes,
    failed_message_retries,
    failed_messages,
    message_redirects,
    retry_batches,
    retry_operations,
)

message_columns = failed_messages.c
retries = failed_message_retries.c
redirects = message_redirects.c
operation_columns = retry_operations.c


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedRest:
    """The new batch in Staging that holds the rest of a batch that could not be completed."""

    batch_id: str
    size: int
    stage_attempts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedCompletion:
    """How many claims of a batch are not recorded; with none, batch and pointer are deleted.

    `decided` is what was decided about what was reverted in the last window.
    """

    unrecorded: int
    decided: Sequence[Decided] = ()


@fenced
def complete_batch(
    tx: Transaction,
    batch: RetryBatch,
    judge: Judge = WAITING,
    *,
    finished: WindowResult = NOTHING_FINISHED,
) -> TriedCompletion:
    """Record the last window, and delete batch and pointer if all its claims are recorded then.

    The claims stay: they prevent other retries until the outcome arrives. If the operation is to be
    cancelled and no window is to be recorded, those that are not stamped are released before.
    Raises LeaseLost, DatabaseUnavailable.
    """
    decided = _open(tx, batch, judge, finished).decided if finished else ()
    unrecorded = claims.count_unrecorded(tx, batch.batch_id)
    # Not behind a record: that has locked claims, and to lock messages after claims could deadlock.
    if unrecorded and not finished and is_cancel_asked(tx, batch.operation_id):
        unrecorded -= release_unstamped(tx, batch)
    if unrecorded == 0:
        end_batch(tx, batch.batch_id)
        done = Entry(
            kind="batch_forwarded",
            text=f"the batch of {count_messages(batch.message_count or 0)} is done",
            operation_id=batch.operation_id,
            batch_id=batch.batch_id,
        )
        event_log.append(tx, [done])
    return TriedCompletion(unrecorded=unrecorded, decided=decided)


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
    batches.add(
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
        text=f"staged again, as the staging queue did not have them: {count_messages(rest.size)}",
        operation_id=batch.operation_id,
        batch_id=rest.batch_id,
        details={"from_batch": batch.batch_id},
    )
    event_log.append(tx, [moved])


_DROPPED = "it changed after it was claimed"

# Not correlated, so the server looks at the operation once for the whole batch. By the batch and not
# by each claim: all claims of a batch are of its operation.
_OWN_DESTINATION = (
    select(retry_operations.c.destination)
    .join_from(retry_batches, retry_operations)
    .where(retry_batches.c.batch_id == bindparam("batch"))
    .scalar_subquery()
)

# Made once: SQLAlchemy takes longer to make a statement than to execute it.
_DESTINATION = func.coalesce(_OWN_DESTINATION, redirects.to_queue, causes.c.destination)
_LOAD_CLAIMED = (
    select(
        retries.number,
        message_columns.unique_message_id,
        retries.retry_id,
        _DESTINATION.label("destination"),
        (causes.c.destination != _DESTINATION).label("elsewhere"),
        (message_columns.properties_size + message_columns.body_size).label("size"),
    )
    .join_from(failed_message_retries, failed_messages, message_columns.number == retries.number)
    .join(causes, causes.c.cause_id == message_columns.cause_id)
    .outerjoin(message_redirects, redirects.from_queue == REDIRECTED_FROM)
    .where(retries.batch_id == bindparam("batch"), retries.forwarded_at.is_(None), sendable())
    .order_by(message_columns.failure_seq)
)
_LOAD_FOR_BREAKERS = _LOAD_CLAIMED.add_columns(causes.c.message_type, message_columns.policy)


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
    messages.lock(tx, sorted({*staged.numbers, *ejected}))
    claims.lock_batch(tx, batch.batch_id)
    decided = revert(tx, batch, staged.ejected, judge)
    issued = issue(tx, batch.batch_id, staged.numbers)
    dropped = claims.keep_only(tx, batch.batch_id, issued)
    operations.note_dropped(tx, batch.operation_id, sorted(dropped), _DROPPED)
    unsent = [edit_id for edit_id in dropped.values() if edit_id is not None]
    if unsent:
        edits.end_those(tx, unsent, EditState.DROPPED, _DROPPED)
    if staged.next_ids:
        batches.add_staging_ids(tx, staged.next_ids)
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
    batches.back_off(tx, batch_id, wait, reason)


def _freeze(tx: Transaction, batch: RetryBatch, staging_id: str, count: int) -> None:
    batches.move(
        tx,
        batch.batch_id,
        RetryBatchStatus.FORWARDING,
        staging_id=staging_id,
        message_count=count,
        not_before=None,
        reason=None,
    )
    batches.point_at(tx, batch.batch_id)
    operations.go_on_its_way(tx, batch.operation_id)
    staged = Entry(
        kind="batch_staged",
        text=f"staged and on the way: {count_messages(count)}",
        operation_id=batch.operation_id,
        batch_id=batch.batch_id,
    )
    event_log.append(tx, [staged])


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedWindow:
    """The claims of a window that are stamped, and what was decided about what was reverted."""

    stamped: tuple[StampedMessage, ...]
    decided: Sequence[Decided] = ()


@fenced
def open_window(
    tx: Transaction,
    batch: RetryBatch,
    judge: Judge = WAITING,
    *,
    finished: WindowResult,
    numbers: Sequence[int],
    tell_doubt: bool = True,
) -> OpenedWindow:
    """Record the window before, and stamp the claims of this one.

    One transaction, which also renews the lease. `tell_doubt` writes into the event log how many of
    them are in doubt, if any are: not for those that go one by one, which were told before. Only
    what is stamped may be published: any other message has lost its claim, is recorded, is not
    *retry issued*, or was not stamped before the cancel of its operation was asked for. `judge`
    decides what happens next to what was reverted. Raises LeaseLost, DatabaseUnavailable.
    """
    return _open(tx, batch, judge, finished, numbers, tell_doubt=tell_doubt)


def _open(
    tx: Transaction,
    batch: RetryBatch,
    judge: Judge,
    finished: WindowResult,
    numbers: Sequence[int] = (),
    *,
    tell_doubt: bool = True,
) -> OpenedWindow:
    decided = _revert(tx, batch, finished, judge) if finished.reverted else ()
    if finished.edited:
        # Messages before claims, as everywhere: they are resolved in this transaction.
        tx.sql.share_cut_off(tx.conn)
        messages.lock(tx, sorted(finished.edited))
    moved = claims.record_and_stamp(tx, batch, finished.forwarded, numbers)
    # If a claim is gone, its outcome has arrived, and was counted then.
    recorded = moved.keys() & set(finished.forwarded)
    operations.count_forwarded(tx, [batch.operation_id] * len(recorded))
    counted = [moved[number] for number in recorded if moved[number].breaker_id is not None]
    if counted:
        count_sent(tx, counted)
    if finished.edited:
        _resolve_edited(tx, batch, recorded & set(finished.edited))
    stamped = tuple(
        StampedMessage(number=number, in_doubt=claim.in_doubt)
        for number, claim in moved.items()
        if number not in recorded
    )
    doubtful = sum(each.in_doubt for each in stamped)
    if doubtful and tell_doubt:
        _record_doubt(tx, batch, doubtful)
    return OpenedWindow(stamped=stamped, decided=decided)


def _resolve_edited(tx: Transaction, batch: RetryBatch, numbers: Collection[int]) -> None:
    """Resolve what went out as edited: there is no outcome to wait for, it is another message."""
    if numbers:
        edits.record_sent(tx, numbers)
        sent = {(batch.operation_id, RetryOutcome.EDITED): len(numbers)}
        operations.count_outcomes(tx, sent)


@reading
def load_originals(
    tx: Transaction, numbers: Sequence[int], operation_id: str | None = None
) -> Mapping[int, StoredOriginal | None]:
    """Return these messages as they failed, by number; None for one whose failure is deleted.

    With the patch of the operation, which is not applied yet.

    Of an edit, what a person has made of its message; one that it has no claim on is missing in the
    result, and so is a deleted message. Nothing is locked: a message may fail again with
    another body, but that ends its claim, so it is not stamped and the old body is not sent.
    Raises DatabaseUnavailable.
    """
    asked = {"numbers": numbers, "operation": operation_id}
    found = tx.execute(_shown(tx.sql), asked).all()
    shown = {row.number: row.attempt_id for row in found}
    dropped = tuple(found[0].drop_headers or ()) if found else ()
    patch = found[0].patch if found else None
    steps = find_steps(tx, numbers) if found and found[0].any_steps else {}
    if operation_id is not None and found and found[0].retry_type == RetryType.EDIT:
        return edits.load(tx, operation_id, numbers, steps)
    rows = tx.execute(select_originals(tx.sql), {"attempts": list(shown.values())})
    # If somebody deleted only the body, there is nothing to send either.
    stored = {
        row.attempt_id: StoredOriginal(
            row.raw_properties,
            row.body,
            row.dialect,
            row.error_queue,
            steps.get(row.number),
            dropped,
            patch=patch,
        )
        for row in rows
        if row.body is not None
    }
    return {number: stored.get(attempt) for number, attempt in shown.items()}


def _record_doubt(tx: Transaction, batch: RetryBatch, count: int) -> None:
    text = (
        f"messages of the batch that a crash or a lost connection left in doubt: {count}; they are "
        "sent again, and may arrive twice"
    )
    entry = Entry(
        kind="sent_again",
        text=text,
        operation_id=batch.operation_id,
        batch_id=batch.batch_id,
        details={"count": count},
    )
    event_log.append(tx, [entry])


def _revert(
    tx: Transaction, batch: RetryBatch, finished: WindowResult, judge: Judge
) -> Sequence[Decided]:
    """Make the reverted messages unresolved again; locks messages first, then claims."""
    tx.sql.share_cut_off(tx.conn)
    messages.lock(tx, sorted(item.number for item in finished.reverted))
    claims.lock_batch(tx, batch.batch_id)
    return revert(tx, batch, finished.reverted, judge)


# Two statements instead of a join: if the table has grown since its statistics were made, the
# planner would read all of it for a join, to find two hundred rows.
@cache
def _shown(sql: SqlDialect) -> Select[Any]:
    # Of one operation, and of all attempts: each is read once, whatever the number of messages.
    mine = operation_columns.operation_id == bindparam("operation")
    dropped = select(operation_columns.drop_headers).where(mine)
    patch = select(operation_columns.patch).where(mine)
    retry_type = select(operation_columns.retry_type).where(mine)
    return select(
        message_columns.number,
        message_columns.attempt_id,
        dropped.scalar_subquery().label("drop_headers"),
        patch.scalar_subquery().label("patch"),
        retry_type.scalar_subquery().label("retry_type"),
        NAMED_BY_ANY.label("any_steps"),
    ).where(sql.listed(message_columns.number, "numbers"))
