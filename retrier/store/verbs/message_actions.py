"""Ways out of a failure but a retry: archive, unarchive, resolve, release; and pending retries."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter
from types import MappingProxyType

from retrier.domain.decision import Manual
from retrier.domain.failed_message import FailedMessageStatus, Move, Resolution, RetryEnd
from retrier.domain.identity import canonical, is_guid
from retrier.domain.message_actions import Act, ClaimStage, Refusal, why_not
from retrier.domain.retry_operation import RetryRequest
from retrier.domain.selection import Selection
from retrier.store.engine.sql_dialect import Counter
from retrier.store.engine.transaction import StoredRow, Transaction
from retrier.store.engine.verb import writing
from retrier.store.queries.selections import conditions
from retrier.store.tables import claims, event_log, failed_messages, retry_operations
from retrier.store.tables import retry_operation_messages as named
from retrier.store.tables.event_log import Event
from retrier.store.tables.message_locks import lock_those
from retrier.store.verbs import asking
from retrier.store.verbs.asking import CreatedOperation
from retrier.store.verbs.ending import end_claims

_DONE: Mapping[Act, tuple[str, str]] = MappingProxyType(
    {
        Act.ARCHIVE: ("message_archived", "archived"),
        Act.UNARCHIVE: ("message_unarchived", "unarchived: unresolved again"),
        Act.RESOLVE: ("message_resolved", "resolved by hand"),
        Act.RELEASE: ("retry_released", "its retry is waited for no more: unresolved again"),
    }
)
"""The event of each act, and its words."""

_ENDS: Mapping[Act, RetryEnd] = MappingProxyType(
    {
        Act.ARCHIVE: RetryEnd.RELEASED,
        Act.UNARCHIVE: RetryEnd.RELEASED,
        Act.RESOLVE: RetryEnd.RESOLVED,
        Act.RELEASE: RetryEnd.RELEASED,
    }
)
"""How the retry ends that an act finds. Archived is only what was not sent, which leaves nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """An act and who asks for it; `selection` is what a bulk selected its messages by."""

    act: Act
    who: str
    selection: Selection | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Acted:
    """The messages that did change, and why the others did not."""

    done: tuple[str, ...]
    refused: Mapping[str, Refusal]


@writing
def take_way_out(tx: Transaction, asked: Asked, unique_ids: Sequence[str]) -> Acted:
    """Do the act to each of these messages that may be, and say why the others may not.

    One transaction. Claims end with it; a message that was claimed and not sent yet is out of its
    batch, and its operation counts it as skipped. Raises DatabaseUnavailable.
    """
    acted = change(tx, asked, unique_ids)
    event_log.append(tx, list(_refusals(asked, acted)))
    return acted


def change(tx: Transaction, asked: Asked, unique_ids: Sequence[str]) -> Acted:
    """Do the act inside a transaction that does more; refusals are left to the caller to tell."""
    if asked.act in (Act.UNARCHIVE, Act.RELEASE):
        # Before any row, as ingestion does it: who waits for the numbers must hold no message.
        tx.sql.share_cut_off(tx.conn)
    wanted = [canonical(each) if is_guid(each) else each for each in unique_ids]
    found = _lock(tx, asked, wanted)
    numbers = {key: row.number for key, row in found.items()}
    stages = {claim.number: _stage(claim) for claim in claims.lock(tx, sorted(numbers.values()))}
    gone = Refusal.UNKNOWN if asked.selection is None else Refusal.CHANGED
    judged = {
        key: _judge(asked.act, found[key], stages) if key in found else gone for key in wanted
    }
    done = tuple(sorted(key for key, refusal in judged.items() if refusal is None))
    _apply(tx, asked, {numbers[key]: key for key in done})
    return Acted(done=done, refused={key: why for key, why in judged.items() if why is not None})


def _lock(tx: Transaction, asked: Asked, unique_ids: Sequence[str]) -> dict[str, StoredRow]:
    """Lock the messages, looking again at what they were selected by."""
    ids = [unique_id for unique_id in unique_ids if is_guid(unique_id)]
    again = conditions(asked.selection) if asked.selection else ()
    return {row.unique_message_id: row for row in lock_those(tx, ids, again)}


def _judge(act: Act, row: StoredRow, stages: Mapping[int, ClaimStage]) -> Refusal | None:
    stage = stages.get(row.number, ClaimStage.NONE)
    return why_not(act, FailedMessageStatus(row.status), stage)


def _stage(claim: StoredRow) -> ClaimStage:
    if claim.forwarded_at is not None:
        return ClaimStage.SENT
    return ClaimStage.CLAIMED if claim.sending_since is None else ClaimStage.BEING_SENT


def _apply(tx: Transaction, asked: Asked, done: Mapping[int, str]) -> None:
    if not done:
        return
    numbers = sorted(done)
    match asked.act:
        case Act.ARCHIVE:
            failed_messages.archive(tx, numbers)
        case Act.RESOLVE:
            failed_messages.settle(tx, numbers, Resolution.BY_HAND)
        case Act.UNARCHIVE:
            failed_messages.become_unresolved(tx, Move.UNARCHIVED, dict.fromkeys(done, Manual()))
        case Act.RELEASE:
            failed_messages.become_unresolved(tx, Move.TAKEN_BACK, dict.fromkeys(done, Manual()))
    kind, words = _DONE[asked.act]
    events = [
        Event(kind=kind, text=f"{key}: {words}", who=asked.who, unique_message_id=key)
        for key in sorted(done.values())
    ]
    event_log.append(tx, [*events, *_end_claims(tx, asked, done)])


def _end_claims(tx: Transaction, asked: Asked, done: Mapping[int, str]) -> Iterable[Event]:
    """End the claims; those of messages not sent yet are shown as skipped by their operations."""
    ended = end_claims(tx, sorted(done), _ENDS[asked.act])
    unsent = sorted(
        (claim for claim in ended if claim.forwarded_at is None), key=attrgetter("operation_id")
    )
    reason = f"it was {_DONE[asked.act][1]} before it was sent"
    for operation_id, rows in groupby(unsent, attrgetter("operation_id")):
        numbers = [row.number for row in rows]
        retry_operations.count_skipped(tx, operation_id, len(numbers))
        named.note_dropped(tx, operation_id, numbers, reason)
        for key in map(done.__getitem__, numbers):
            yield Event(
                kind="retry_skipped",
                text=f"{key}: not retried: {reason}",
                who=asked.who,
                unique_message_id=key,
                operation_id=operation_id,
            )


def _refusals(asked: Asked, acted: Acted) -> Iterable[Event]:
    """One event for each reason; it names the message if there is one only."""
    for reason in sorted(set(acted.refused.values())):
        keys = [key for key, why in acted.refused.items() if why is reason]
        one = keys[0] if len(keys) == 1 else None
        yield Event(
            kind=f"{asked.act}_refused",
            text=f"{asked.act} of {one or f'{len(keys)} messages'}: {reason}",
            who=asked.who,
            unique_message_id=one,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RetriedAgain:
    """The operation, None if nothing was left to retry, and how many claims were released."""

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

    Ids that somebody named are all part of it: one that is no pending retry is retried as usual,
    or skipped with its reason. Of those of a `selection`, what has left it since is not.
    Raises KeyReused, DatabaseUnavailable.
    """
    by_name = Selection(ids=tuple(unique_ids)) if selection is None else None
    known = asking.find_repeated(tx, request, by_name)
    if known is not None:
        return RetriedAgain(created=known, released=0)
    asked = Asked(act=Act.RELEASE, who=request.requested_by, selection=selection)
    released = change(tx, asked, unique_ids).done
    named = tuple(unique_ids) if selection is None else released
    if selection is not None and not named:
        return RetriedAgain(created=None, released=0)
    # All these messages are locked, so their numbers are known and the cut-off is exact for them;
    # the cut-off lock, taken after row locks, would wait for those who wait for the rows.
    cut_off = tx.sql.last_number(tx.conn, Counter.FAILURE_SEQ)
    created = asking.freeze(tx, replace(request, selection=Selection(ids=named)), cut_off)
    return RetriedAgain(created=created, released=len(released))
