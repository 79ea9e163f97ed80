"""Actions on failed messages: archive, unarchive, resolve, release; and retries of pending ones."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from retrier.domain.archive_operation import Act, ClaimStage, Refusal, why_not
from retrier.domain.decision import Manual
from retrier.domain.failed_message import FailedMessageStatus, Move, RetryEnd
from retrier.domain.identity import canonical, is_guid
from retrier.domain.retry_operation import RetryRequest
from retrier.domain.selection import Selection
from retrier.store.engine.database import writing
from retrier.store.engine.sql_dialect import NumberSource
from retrier.store.engine.transaction import StoredRow, Transaction
from retrier.store.queries.due import first_due_of
from retrier.store.queries.selections import conditions
from retrier.store.tables import claims, event_log, failed_messages
from retrier.store.tables.event_log import Entry
from retrier.store.tables.message_locks import lock_those
from retrier.store.verbs import operations
from retrier.store.verbs.bulk_entries import tell_of_many
from retrier.store.verbs.left_batches import leave_batches
from retrier.store.verbs.operations import CreatedOperation
from retrier.store.verbs.standing import ensure_standing

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
    refused: Mapping[str, Refusal]

    def reason_for(self, unique_id: str) -> Refusal | None:
        """Return why the message with this id, as it was given, was left as it was."""
        return self.refused.get(_as_stored(unique_id))


def _as_stored(unique_id: str) -> str:
    return canonical(unique_id) if is_guid(unique_id) else unique_id


def change(tx: Transaction, action: Action, unique_ids: Sequence[str]) -> ActionResult:
    """Do the act to each of these messages that allows it; return why the others do not.

    Part of a larger transaction, which must log the refusals (`tell_refusals`). It ends claims: a
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
    gone = Refusal.UNKNOWN if action.selection is None else Refusal.CHANGED
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


def _judge(act: Act, row: StoredRow, stages: Mapping[int, ClaimStage]) -> Refusal | None:
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
            failed_messages.archive(tx, numbers, action.operation_id)
        case Act.RESOLVE:
            failed_messages.settle(tx, numbers)
        case Act.UNARCHIVE:
            failed_messages.unarchive(tx, numbers)
            # What was scheduled is so again, perhaps due at once: an idle processor sleeps longer.
            earliest = first_due_of(tx, numbers)
            if earliest is not None:
                ensure_standing(tx, earliest)
        case Act.RELEASE:
            failed_messages.become_unresolved(tx, Move.REVERTED, dict.fromkeys(done, Manual()))
    how, became = _RETRY_ENDS[action.act], _DONE[action.act][1]
    left = leave_batches(tx, done, how, who=action.who, became=became)
    event_log.append(tx, [*_tell(action, done), *left])


def _tell(action: Action, done: Mapping[int, str]) -> Iterable[Entry]:
    if action.in_bulk:
        yield tell_of_many(action.act, action.who, action.operation_id, sorted(done))
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


def tell_refusals(action: Action, acted: ActionResult) -> Iterable[Entry]:
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
    by_name = Selection(ids=tuple(unique_ids)) if selection is None else None
    known = operations.find_repeated(tx, request, by_name)
    if known is not None:
        return RetriedAgain(created=known, released=0)
    action = Action(act=Act.RELEASE, who=request.requested_by, selection=selection)
    released = change(tx, action, unique_ids).done
    named = tuple(unique_ids) if selection is None else released
    if selection is not None and not named:
        return RetriedAgain(created=None, released=0)
    # All these messages are locked, so the cut-off is exact for them without the cut-off lock.
    # Taken after row locks, that would deadlock with ingesters that wait for the rows.
    cut_off = tx.sql.last_number(tx.conn, NumberSource.FAILURE_SEQ)
    created = operations.freeze(tx, replace(request, selection=Selection(ids=named)), cut_off)
    return RetriedAgain(created=created, released=len(released))
