"""Dead messages: a person revives one, or declares one dead."""

from retrier.domain.access import QueuePatterns
from retrier.domain.archive_operation import (
    ActRefusal,
    ClaimStage,
    why_not_declare_dead,
    why_not_revive,
)
from retrier.domain.copies import DeadMessage
from retrier.domain.decision import Dead
from retrier.domain.failed_message import Disposition, FailedMessageStatus, Move, RetryEnd
from retrier.domain.identity import canonical, is_guid
from retrier.domain.retry_operation import RetryRequest
from retrier.store import claims, event_log, message_texts, messages
from retrier.store.archive import stage_of
from retrier.store.attempts import Columns
from retrier.store.engine.database import writing
from retrier.store.engine.sql_dialect import NumberSource
from retrier.store.engine.transaction import StoredRow, Transaction
from retrier.store.event_log import Entry
from retrier.store.messages import NO_CHANGE, lock_by_id
from retrier.store.operation_requests import CreatedOperation, find_repeated, freeze
from retrier.store.outgoing import add_notices
from retrier.store.retry_ends import leave_batches
from retrier.store.selections import find_foreign

State = tuple[FailedMessageStatus, Disposition, ClaimStage]


@writing
def revive(tx: Transaction, request: RetryRequest, unique_id: str) -> CreatedOperation | ActRefusal:
    """Create the operation that retries one dead message; or return why it is not retried.

    It stays dead until its retry is issued. The same request under the same idempotency key gives
    the same operation again, whatever has become of the message. Raises KeyReused,
    DatabaseUnavailable.
    """
    known = find_repeated(tx, request, request.selection)
    if known is not None:
        return known
    row = _lock(tx, unique_id)
    if row is None:
        return ActRefusal.UNKNOWN
    refusal = why_not_revive(*_state_of(tx, row))
    if refusal is not None:
        key, who = row.unique_message_id, request.requested_by
        entry = Entry(
            kind="revive_refused",
            text=f"revive of {key}: {refusal}",
            who=who,
            unique_message_id=key,
        )
        event_log.append(tx, [entry])
        return refusal
    # The message is locked, so the cut-off is exact for it without the cut-off lock, which must not
    # be taken after row locks: ingesters wait for the rows.
    return freeze(tx, request, tx.sql.last_number(tx.conn, NumberSource.FAILURE_SEQ))


@writing
def declare_dead(
    tx: Transaction,
    unique_id: str,
    *,
    why: str,
    who: str,
    reason: str | None = None,
    notices: str | None = None,
    within: QueuePatterns | None = None,
) -> ActRefusal | None:
    """Declare one unresolved message dead; return why it is left as it is, or None.

    It gets a new failure number: no operation that was asked for earlier takes it, and a claim that
    Marking takes at this moment does not hold. A claim under which nothing was sent ends. With
    `reason` it is classified under that until its retry fails. With `notices`, a notice is to be
    sent to that queue. With `within` it has to be of a queue of these patterns. Raises
    DatabaseUnavailable.
    """
    # Before any row lock, as ingestion does: waiting for this with rows locked could deadlock.
    tx.sql.share_cut_off(tx.conn)
    row = _lock(tx, unique_id)
    if row is None:
        return ActRefusal.UNKNOWN
    if find_foreign(tx, within, [row.number]):
        return ActRefusal.CHANGED
    refusal = why_not_declare_dead(*_state_of(tx, row))
    key = row.unique_message_id
    if refusal is not None:
        entry = Entry(
            kind="dead_refused",
            text=f"declaring {key} dead: {refusal}",
            who=who,
            unique_message_id=key,
        )
        event_log.append(tx, [entry])
        return refusal
    _give_up(tx, row, why, who, reason)
    if notices is not None:
        add_notices(tx, notices, [DeadMessage(number=row.number, attempt_id=row.attempt_id)])
    return None


def _lock(tx: Transaction, unique_id: str) -> StoredRow | None:
    ids = [canonical(unique_id)] if is_guid(unique_id) else []
    return next(iter(lock_by_id(tx, ids)), None)


def _state_of(tx: Transaction, row: StoredRow) -> State:
    """Lock the claim of a locked message; return how the message stands."""
    stage = next(map(stage_of, claims.lock(tx, [row.number])), ClaimStage.NONE)
    return FailedMessageStatus(row.status), Disposition(row.disposition), stage


def _classify(tx: Transaction, number: int, reason: str | None) -> Columns:
    """Return the columns of a message that is classified under this reason, if it is given."""
    if reason is None:
        return NO_CHANGE
    text_ids = message_texts.classify_anew(tx, {number: reason})
    return {"reason": reason, "text_id": text_ids.get(number)}


def _give_up(tx: Transaction, row: StoredRow, why: str, who: str, reason: str | None) -> None:
    key, decision = row.unique_message_id, Dead(why=f"declared dead by {who}: {why}")
    given_up = {row.number: decision}
    classified = _classify(tx, row.number, reason)
    messages.become_unresolved(tx, Move.GIVEN_UP, given_up, classified=classified)
    left = leave_batches(tx, {row.number: key}, RetryEnd.RELEASED, who=who, became="declared dead")
    dead = "dead" if reason is None else f"dead with the reason {reason}"
    declared = Entry(
        kind="message_declared_dead", text=f"{key}: {dead}: {why}", who=who, unique_message_id=key
    )
    event_log.append(tx, [declared, *left])
