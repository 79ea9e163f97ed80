"""Archive, unarchive and resolve: done at once to a few messages, or worked off as an operation.

A small request is done before it is answered. A large one is written down (`archive_operations`),
and the holder of the lease works it off, chunk by chunk. What is done to a message is the same.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from types import MappingProxyType
from uuid import uuid4

from sqlalchemy import ColumnElement, Update, bindparam, delete, select, update

from retrier.domain.archive_operation import (
    AT_ONCE,
    OPPOSITE,
    Act,
    ActRefusal,
    ArchiveOperation,
    ArchiveOperationState,
    ArchiveRequest,
    ClaimStage,
    count_left,
    distinct,
    hash_archive_request,
    parts_to_store,
    select_for,
    why_not,
)
from retrier.domain.decision import Manual
from retrier.domain.failed_message import FailedMessageStatus, Move, RetryEnd
from retrier.domain.identity import canonical, is_guid
from retrier.domain.retry_operation import RetryRequest
from retrier.domain.selection import Selection
from retrier.domain.values import dataclass
from retrier.store import claims, event_log, messages, operation_requests
from retrier.store.archive_lists import (
    ArchiveChunk,
    archive_from_row,
    count_matches,
    find_first,
    is_any_open,
)
from retrier.store.engine.database import Database, writing
from retrier.store.engine.sql_dialect import NumberSource
from retrier.store.engine.transaction import ConcurrentChange, StoredRow, Transaction
from retrier.store.event_log import Entry, entry_of_completion, entry_of_many, entry_of_request
from retrier.store.groups import list_group_archives
from retrier.store.judging import ensure_standing
from retrier.store.lease import Fence, share_lease
from retrier.store.messages import lock_those
from retrier.store.operation_requests import (
    CreatedOperation,
    entry_of_acknowledgement,
    find_keyed,
    reused,
)
from retrier.store.retry_ends import leave_batches
from retrier.store.schedule import first_due_of
from retrier.store.schema import archive_operation_messages, archive_operations
from retrier.store.selections import (
    conditions,
    freeze_words,
    known_by_now,
    last_number,
    take_cut_off,
)

operations = archive_operations.c
named = archive_operation_messages.c


_DONE: Mapping[Act, tuple[str, str]] = MappingProxyType(
    {
        Act.ARCHIVE: ("message_archived", "archived"),
        Act.UNARCHIVE: ("message_unarchived", "unarchived: unresolved again"),
        Act.RESOLVE: ("message_resolved", "resolved by hand"),
        Act.RELEASE: ("retry_released", "its pending retry was released: unresolved again"),
    }
)
"""The kind and the text of each act's event."""

_RETRY_ENDS: Mapping[Act, RetryEnd] = MappingProxyType(
    {
        Act.ARCHIVE: RetryEnd.RELEASED,
        Act.UNARCHIVE: RetryEnd.RELEASED,
        Act.RESOLVE: RetryEnd.RESOLVED,
        Act.RELEASE: RetryEnd.RELEASED,
    }
)
"""How each act ends a retry. ARCHIVE and UNARCHIVE find unstamped claims only: nothing is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """An act and who asks for it; `selection` is that of a bulk, None for named messages.

    `operation_id` is the archive operation that the act belongs to. With `in_bulk`, one event tells
    of all messages, instead of one for each.
    """

    act: Act
    who: str
    selection: Selection | None = None
    operation_id: str | None = None
    in_bulk: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionResult:
    """The ids of the messages that changed, and for each other id why not."""

    done: tuple[str, ...]
    refused: Mapping[str, ActRefusal]

    def reason_for(self, unique_id: str) -> ActRefusal | None:
        """Return why the message with this id, as it was given, was left as it was."""
        return self.refused.get(_as_stored(unique_id))


def _as_stored(unique_id: str) -> str:
    return canonical(unique_id) if is_guid(unique_id) else unique_id


def change(tx: Transaction, action: Action, unique_ids: Sequence[str]) -> ActionResult:
    """Do the act to each of these messages that allows it; return why the others do not.

    Part of a larger transaction, which must log the refusals (`refusal_entries`). It ends claims: a
    message that was claimed but not sent leaves its batch, and its operation counts it as skipped.
    """
    if action.act is not Act.RESOLVE:
        # Before any row lock, as ingestion does: waiting for this with rows locked could deadlock.
        # An archive takes a number, too: a plan to unarchive leaves out what was archived since.
        tx.sql.share_cut_off(tx.conn)
    wanted = [_as_stored(each) for each in unique_ids]
    found = _lock(tx, action, wanted)
    numbers = {key: row.number for key, row in found.items()}
    stages = {claim.number: stage_of(claim) for claim in claims.lock(tx, sorted(numbers.values()))}
    gone = ActRefusal.UNKNOWN if action.selection is None else ActRefusal.CHANGED
    judged = {
        key: _judge(action.act, found[key], stages) if key in found else gone for key in wanted
    }
    done = tuple(sorted(key for key, refusal in judged.items() if refusal is None))
    _apply(tx, action, {numbers[key]: key for key in done})
    return ActionResult(
        done=done, refused={key: why for key, why in judged.items() if why is not None}
    )


def _lock(tx: Transaction, action: Action, unique_ids: Sequence[str]) -> dict[str, StoredRow]:
    """Lock the messages that (still) match the selection; return their rows by unique id."""
    ids = [unique_id for unique_id in unique_ids if is_guid(unique_id)]
    again = conditions(action.selection) if action.selection else ()
    return {row.unique_message_id: row for row in lock_those(tx, ids, again)}


def _judge(act: Act, row: StoredRow, stages: Mapping[int, ClaimStage]) -> ActRefusal | None:
    stage = stages.get(row.number, ClaimStage.NONE)
    return why_not(act, FailedMessageStatus(row.status), stage)


def stage_of(claim: StoredRow) -> ClaimStage:
    """Return how far the retry is that has this claim."""
    if claim.forwarded_at is not None:
        return ClaimStage.SENT
    return ClaimStage.CLAIMED if claim.sending_since is None else ClaimStage.BEING_SENT


def _apply(tx: Transaction, action: Action, done: Mapping[int, str]) -> None:
    if not done:
        return
    numbers = sorted(done)
    match action.act:
        case Act.ARCHIVE:
            messages.archive(tx, numbers, action.operation_id)
        case Act.RESOLVE:
            messages.settle(tx, numbers)
        case Act.UNARCHIVE:
            messages.unarchive(tx, numbers)
            # What was scheduled is so again, perhaps due at once: an idle processor sleeps longer.
            earliest = first_due_of(tx, numbers)
            if earliest is not None:
                ensure_standing(tx, earliest)
        case Act.RELEASE:
            messages.become_unresolved(tx, Move.REVERTED, dict.fromkeys(done, Manual()))
    how, became = _RETRY_ENDS[action.act], _DONE[action.act][1]
    left = leave_batches(tx, done, how, who=action.who, became=became)
    event_log.append(tx, [*_tell(action, done), *left])


def _tell(action: Action, done: Mapping[int, str]) -> Iterable[Entry]:
    if action.in_bulk:
        yield entry_of_many(action.act, action.who, action.operation_id, sorted(done))
        return
    kind, words = _DONE[action.act]
    for key in sorted(done.values()):
        yield Entry(
            kind=kind,
            text=f"{key}: {words}",
            who=action.who,
            unique_message_id=key,
            operation_id=action.operation_id,
        )


def refusal_entries(action: Action, acted: ActionResult) -> Iterable[Entry]:
    """Yield one entry of the event log for each reason; it names the message if there is only one."""
    for reason in sorted(set(acted.refused.values())):
        keys = [key for key, why in acted.refused.items() if why is reason]
        one = keys[0] if len(keys) == 1 else None
        yield Entry(
            kind=f"{action.act}_refused",
            text=f"{action.act} of {one or f'{len(keys)} messages'}: {reason}",
            who=action.who,
            unique_message_id=one,
            operation_id=action.operation_id,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RetriedAgain:
    """The operation (None if nothing was left to retry), and how many claims were released."""

    created: CreatedOperation | None
    released: int


@writing
def retry_pending(
    tx: Transaction,
    request: RetryRequest,
    unique_ids: Sequence[str],
    selection: Selection | None = None,
) -> RetriedAgain:
    """Release the pending retries among these messages and create an operation for them.

    Without a `selection`, all ids become part of it: one that is no pending retry is retried as
    usual, or skipped with its reason. With one, only the messages that still match it do.
    Raises KeyReused, DatabaseUnavailable.
    """
    by_name = replace(request.selection, ids=tuple(unique_ids)) if selection is None else None
    known = operation_requests.find_repeated(tx, request, by_name)
    if known is not None:
        return RetriedAgain(created=known, released=0)
    bounded = _rights_of(request.selection) if selection is None else selection
    action = Action(act=Act.RELEASE, who=request.requested_by, selection=bounded)
    released = change(tx, action, unique_ids).done
    named = tuple(unique_ids) if selection is None else released
    if selection is not None and not named:
        return RetriedAgain(created=None, released=0)
    # All these messages are locked, so the cut-off is exact for them without the cut-off lock.
    # Taken after row locks, that would deadlock with ingesters that wait for the rows.
    cut_off = tx.sql.last_number(tx.conn, NumberSource.FAILURE_SEQ)
    created = operation_requests.freeze(
        tx, replace(request, selection=replace(request.selection, ids=named)), cut_off
    )
    return RetriedAgain(created=created, released=len(released))


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedArchive:
    """The operation of a request; `repeated` when its idempotency key was known already.

    `not_yours` counts named messages that were left out, as who asks has no right to their queues.
    """

    operation: ArchiveOperation
    repeated: bool
    not_yours: int = 0


def ask_archive(db: Database, request: ArchiveRequest, at_once: int = AT_ONCE) -> AskedArchive:
    """Do what was asked for, or write it down if it is about more than `at_once` messages.

    Done or durable when this returns. What is written down is worked off by the holder of the
    lease, chunk by chunk. Raises KeyReused, DatabaseUnavailable.
    """
    request = replace(request, selection=known_by_now(db, request.selection))
    few = find_few(db, request, at_once)
    if few is not None:
        return do_at_once(db, request, few)
    return write_down(db, request, take_cut_off(db))


@dataclass(frozen=True, slots=True, kw_only=True)
class Few:
    """All messages that a request is about, and the condition on them; of named ones only rights.

    The condition is bounded by the failure number at the look: one that fails anew before it is
    locked is not meant.
    """

    unique_ids: Sequence[str]
    selection: Selection | None


def find_few(db: Database, request: ArchiveRequest, at_once: int) -> Few | None:
    """Return what a request is about; None if it cannot be done at once."""
    ids = request.selection.ids
    if ids is not None:
        named_ids = distinct(ids)
        few = Few(unique_ids=named_ids, selection=_rights_of(request.selection))
        return few if len(named_ids) <= at_once else None
    opposite = OPPOSITE.get(request.act)
    if opposite is not None and is_any_open(db, opposite):
        # It goes behind the other one: what that one has not done yet is to be taken back, too.
        return None
    bounded = replace(select_for(request.act, request.selection), up_to=last_number(db))
    found = find_first(db, bounded, at_once + 1)
    return Few(unique_ids=found, selection=bounded) if len(found) <= at_once else None


def _rights_of(selection: Selection) -> Selection | None:
    """Return the condition on messages that are named: that they are of the asker's queues, or none."""
    return None if selection.within is None else Selection(within=selection.within)


@writing
def do_at_once(tx: Transaction, request: ArchiveRequest, few: Few) -> AskedArchive:
    """Do the act to these messages and add its operation, completed. Raises KeyReused."""
    repeated = _find_repeated(tx, request)
    if repeated is not None:
        return repeated
    operation_id = str(uuid4())
    action = Action(
        act=request.act,
        who=request.requested_by,
        selection=few.selection,
        operation_id=operation_id,
    )
    acted = change(tx, action, few.unique_ids)
    event_log.append(tx, list(refusal_entries(action, acted)))
    cut_off = tx.sql.last_number(tx.conn, NumberSource.FAILURE_SEQ)
    return _add(tx, request, operation_id, {"cut_off": cut_off, **_done(tx, acted)})


@writing
def write_down(tx: Transaction, request: ArchiveRequest, cut_off: int) -> AskedArchive:
    """Add the operation, of which nothing is done yet. Raises KeyReused."""
    repeated = _find_repeated(tx, request)
    if repeated is not None:
        return repeated
    operation_id = str(uuid4())
    chosen = select_for(request.act, request.selection)
    selection = freeze_words(tx, replace(chosen, up_to=cut_off))
    ids = distinct(selection.ids or ())
    bounded = replace(selection, up_to=cut_off)
    total = len(ids) if selection.ids is not None else count_matches(tx, bounded)
    # What was found by words is written down as ids; the request itself keeps its words.
    found = request.selection if request.selection.words is None else selection
    what = {"selection": _selection(found), "cut_off": cut_off}
    asked = _add(tx, request, operation_id, {**what, **_to_do(total)})
    if ids:
        rows = [
            {"operation_id": operation_id, "position": position, "unique_message_id": unique_id}
            for position, unique_id in enumerate(ids, start=1)
        ]
        tx.sql.add_rows(tx.conn, archive_operation_messages, rows)
    event_log.append(tx, [entry_of_request(request, operation_id, total)])
    tx.sql.announce_request(tx.conn)
    return asked


def _to_do(total: int) -> dict[str, object]:
    state = ArchiveOperationState.WAITING
    return {"state": state, "total": total, "done": 0, "skipped": 0, "skipped_because": {}}


def _done(tx: Transaction, acted: ActionResult) -> dict[str, object]:
    refused = Counter(str(why) for why in acted.refused.values())
    return {
        "state": ArchiveOperationState.COMPLETED,
        "total": len(acted.done) + len(acted.refused),
        "done": len(acted.done),
        "skipped": len(acted.refused),
        "skipped_because": dict(refused),
        "started_at": tx.now,
        "completed_at": tx.now,
    }


def _add(
    tx: Transaction, request: ArchiveRequest, operation_id: str, more: dict[str, object]
) -> AskedArchive:
    row = {
        "operation_id": operation_id,
        "act": request.act,
        "selection": _selection(request.selection),
        "cursor": 0,
        "originator": request.originator,
        "requested_by": request.requested_by,
        "why": request.why,
        "undo_of": request.undo_of,
        "idempotency_key": request.idempotency_key,
        "request_hash": hash_archive_request(request),
        **more,
    }
    inserted = tx.execute(
        tx.sql.insert(archive_operations)
        .values(created_at=tx.now, modified_at=tx.now, **row)
        .on_conflict_do_nothing(index_elements=["idempotency_key"])
        .returning(operations.operation_id)
    )
    if inserted.first() is None:
        # The same request came twice at once: the next try finds and returns the other operation.
        raise ConcurrentChange
    return AskedArchive(operation=_read(tx, operation_id), repeated=False)


def _selection(selection: Selection) -> dict[str, object]:
    """Return its JSON; of ids only how many."""
    ids = selection.ids
    return parts_to_store(selection) | ({} if ids is None else {"ids": len(distinct(ids))})


def _find_repeated(tx: Transaction, request: ArchiveRequest) -> AskedArchive | None:
    """Return the operation that this same request created under its idempotency key.

    Raises KeyReused if another request had the key.
    """
    if request.idempotency_key is None:
        return None
    row = find_keyed(tx, request.idempotency_key, archive_operations)
    if row is None:
        return None
    if row.request_hash != hash_archive_request(request):
        raise reused(row)
    return AskedArchive(operation=archive_from_row(row._asdict()), repeated=True)


def _read(tx: Transaction, operation_id: str) -> ArchiveOperation:
    query = select(archive_operations).where(archive_operations.c.operation_id == operation_id)
    return archive_from_row(dict(tx.execute(query).mappings().one()))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkCounts:
    """Where a chunk ended, and the counts of its operation from then on."""

    cursor: int
    done: int
    because: Mapping[str, int]


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
    before = _lock_at(tx, operation.operation_id, operation.cursor)
    if before is None:
        return None
    acted = _act(tx, operation, chunk)
    counted = _count(operation, before, chunk, acted)
    _move_on(tx, before, counted)
    if chunk.is_last:
        over = {"state": ArchiveOperationState.COMPLETED, "completed_at": tx.now}
        mine = operations.operation_id == operation.operation_id
        tx.execute(update(archive_operations).where(mine).values(over))
        skipped = sum(counted.because.values())
        event_log.append(tx, [entry_of_completion(operation, counted.done, skipped)])
    return ChunkOutcome(
        done=len(acted.done),
        skipped=sum(counted.because.values()) - before.skipped,
        completed=chunk.is_last,
    )


def _lock_at(tx: Transaction, operation_id: str, cursor: int) -> StoredRow | None:
    """Lock an operation that is not completed and whose cursor is there; None if there is none.

    A chunk that is done already is not done once more: its cursor has moved on.
    """
    query = select(archive_operations).where(
        operations.operation_id == operation_id,
        operations.cursor == cursor,
        operations.state != ArchiveOperationState.COMPLETED,
    )
    return tx.execute(query.with_for_update()).first()


def _move_on(tx: Transaction, before: StoredRow, counted: ChunkCounts) -> None:
    """Move the cursor of an operation that this transaction has locked, and set its counts."""
    skipped = sum(counted.because.values())
    tx.execute(
        update(archive_operations)
        .where(operations.operation_id == before.operation_id)
        .values(
            state=ArchiveOperationState.RUNNING,
            cursor=counted.cursor,
            done=counted.done,
            skipped=skipped,
            skipped_because=dict(counted.because),
            # More may match than was counted: another operation went on meanwhile.
            total=max(before.total, counted.done + skipped),
            reason=None,
            started_at=before.started_at or tx.now,
            modified_at=tx.now,
        )
    )


@writing
def note_reason(tx: Transaction, operation_id: str, reason: str) -> None:
    """Store why an operation stands still; its next chunk deletes it. Raises DatabaseUnavailable."""
    tx.execute(
        update(archive_operations)
        .where(
            operations.operation_id == operation_id,
            operations.state != ArchiveOperationState.COMPLETED,
        )
        .values(reason=reason, modified_at=tx.now)
    )


def _act(tx: Transaction, operation: ArchiveOperation, chunk: ArchiveChunk) -> ActionResult:
    if not chunk.unique_ids:
        return ActionResult(done=(), refused={})
    by_name = operation.selection.ids is not None
    # Bounded once more, under the locks: one that failed anew since the look is not meant.
    bounded = replace(operation.selection, up_to=operation.cut_off)
    action = Action(
        act=operation.act,
        who=operation.requested_by,
        selection=_rights_of(operation.selection) if by_name else bounded,
        operation_id=operation.operation_id,
        in_bulk=True,
    )
    acted = change(tx, action, chunk.unique_ids)
    event_log.append(tx, list(refusal_entries(action, acted)))
    if by_name:
        note_refused(tx, operation.operation_id, _by_position(operation, chunk, acted))
    return acted


def note_refused(tx: Transaction, operation_id: str, refused: Mapping[int, str]) -> None:
    """Note why the messages at these positions were left as they were."""
    rows = [{"at": position, "why": why} for position, why in sorted(refused.items())]
    if rows:
        tx.execute(_note_refused(), [{"operation": operation_id, **row} for row in rows])


@cache
def _note_refused() -> Update:
    return (
        update(archive_operation_messages)
        .where(named.operation_id == bindparam("operation"), named.position == bindparam("at"))
        .values(refused_because=bindparam("why"))
    )


def _by_position(
    operation: ArchiveOperation, chunk: ArchiveChunk, acted: ActionResult
) -> Mapping[int, str]:
    """Return the reasons by position: those of a chunk follow each other without a gap."""
    places = enumerate(chunk.unique_ids, start=operation.cursor + 1)
    reasons = {place: acted.reason_for(key) for place, key in places}
    return {place: str(why) for place, why in reasons.items() if why is not None}


def _count(
    operation: ArchiveOperation, before: StoredRow, chunk: ArchiveChunk, acted: ActionResult
) -> ChunkCounts:
    more = Counter(str(why) for why in acted.refused.values())
    because = dict(Counter(before.skipped_because) + more)
    done = before.done + len(acted.done)
    if chunk.is_last:
        because = count_left(operation, because, done, ActRefusal.CHANGED)
    return ChunkCounts(cursor=chunk.cursor, done=done, because=because)


@writing
def acknowledge_archives(tx: Transaction, group_id: str, who: str) -> int:
    """Take note of the completed archive operations of a group; return how many there were.

    One that still runs stays in the list. Raises DatabaseUnavailable.
    """
    if not is_guid(group_id):
        return 0
    seen = [
        each.operation_id
        for group, each in list_group_archives(tx)
        if group == canonical(group_id) and each.state is ArchiveOperationState.COMPLETED
    ]
    if seen:
        done = operations.state == ArchiveOperationState.COMPLETED
        those = tx.sql.member(operations.operation_id, sorted(seen))
        tx.execute(
            update(archive_operations)
            .where(those, done, operations.acknowledged_at.is_(None))
            .values(acknowledged_at=tx.now)
        )
        event_log.append(tx, [entry_of_acknowledgement(each, who) for each in seen])
    return len(seen)


def delete_old(tx: Transaction, conditions: Iterable[ColumnElement[bool]], most: int) -> int:
    """Delete those that meet conditions, the oldest first; return how many.

    The ids that they named go with them (foreign key).
    """
    query = select(operations.operation_id).where(*conditions).order_by(operations.completed_at)
    ids = tx.execute(query.limit(most).with_for_update(skip_locked=True)).scalars().all()
    if ids:
        tx.execute(delete(archive_operations).where(tx.sql.member(operations.operation_id, ids)))
    return len(ids)
