"""Working off archive operations, chunk by chunk, by the holder of the lease."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from retrier.domain.archive_operation import ArchiveOperation, Refusal, count_left
from retrier.store.engine.database import writing
from retrier.store.engine.transaction import StoredRow, Transaction
from retrier.store.queries.archive_chunks import ArchiveChunk
from retrier.store.tables import archive_operation_messages as named
from retrier.store.tables import archive_operations as operations
from retrier.store.tables import event_log
from retrier.store.tables.archive_operations import Counted
from retrier.store.verbs.bulk_entries import tell_completed
from retrier.store.verbs.leases import Fence, share_lease
from retrier.store.verbs.message_actions import Action, ActionResult, change, tell_refusals


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkOutcome:
    """How many messages a chunk changed and left as they were; whether it was the last one."""

    done: int
    skipped: int
    completed: bool


@writing
def work_off(
    tx: Transaction, fence: Fence, operation: ArchiveOperation, chunk: ArchiveChunk
) -> ChunkOutcome | None:
    """Do the act to the messages of a chunk and move the cursor behind it; None if it has moved.

    One transaction: after a kill, the next holder goes on where the cursor is. Each message is
    looked at under its lock, so a retry of the same messages may run meanwhile. A takeover of the
    lease waits, renewals do not. Raises LeaseLost, DatabaseUnavailable.
    """
    share_lease(tx, fence)
    before = operations.lock_at(tx, operation.operation_id, operation.cursor)
    if before is None:
        return None
    acted = _act(tx, operation, chunk)
    counted = _count(operation, before, chunk, acted)
    operations.move_on(tx, before, counted)
    if chunk.is_last:
        operations.complete(tx, operation.operation_id)
        skipped = sum(counted.because.values())
        event_log.append(tx, [tell_completed(operation, counted.done, skipped)])
    return ChunkOutcome(
        done=len(acted.done),
        skipped=sum(counted.because.values()) - before.skipped,
        completed=chunk.is_last,
    )


@writing
def note_reason(tx: Transaction, operation_id: str, reason: str) -> None:
    """Store why an operation stands still; its next chunk deletes it. Raises DatabaseUnavailable."""
    operations.note_reason(tx, operation_id, reason)


def _act(tx: Transaction, operation: ArchiveOperation, chunk: ArchiveChunk) -> ActionResult:
    if not chunk.unique_ids:
        return ActionResult(done=(), refused={})
    by_name = operation.selection.ids is not None
    # Bounded once more, under the locks: one that failed anew since the look is not meant.
    bounded = replace(operation.selection, up_to=operation.cut_off)
    action = Action(
        act=operation.act,
        who=operation.requested_by,
        selection=None if by_name else bounded,
        operation_id=operation.operation_id,
        in_bulk=True,
    )
    acted = change(tx, action, chunk.unique_ids)
    event_log.append(tx, list(tell_refusals(action, acted)))
    if by_name:
        named.note_refused(tx, operation.operation_id, _by_position(operation, chunk, acted))
    return acted


def _by_position(
    operation: ArchiveOperation, chunk: ArchiveChunk, acted: ActionResult
) -> Mapping[int, str]:
    """Return the reasons by position: those of a chunk follow each other without a gap."""
    places = enumerate(chunk.unique_ids, start=operation.cursor + 1)
    reasons = {place: acted.reason_for(key) for place, key in places}
    return {place: str(why) for place, why in reasons.items() if why is not None}


def _count(
    operation: ArchiveOperation, before: StoredRow, chunk: ArchiveChunk, acted: ActionResult
) -> Counted:
    more = Counter(str(why) for why in acted.refused.values())
    because = dict(Counter(before.skipped_because) + more)
    done = before.done + len(acted.done)
    if chunk.is_last:
        because = count_left(operation, because, done, Refusal.CHANGED)
    return Counted(cursor=chunk.cursor, done=done, because=because)
