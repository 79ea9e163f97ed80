"""Requests to edit a message: looked at, and taken with the claim of the message.

The claim is taken in the transaction that takes the edit, and not by the processor later: no other
retry can come between the answer and the sending. So an edit begins as a batch of one in Staging.
"""

from collections.abc import Mapping
from dataclasses import replace
from uuid import uuid4

from sqlalchemy import select

from retrier.domain.approval import hash_plan
from retrier.domain.edits import (
    AskedEdit,
    EditedMessage,
    EditRefusal,
    EditRefused,
    EditRequest,
    hash_edit,
    why_not_edit,
)
from retrier.domain.failed_message import Disposition, FailedMessageStatus, Resolution
from retrier.domain.identity import body_hash, canonical, is_guid
from retrier.domain.retry_batch import RetryBatchStatus, StoredOriginal
from retrier.domain.retry_operation import Priority, RetryOperationState, RetryType
from retrier.domain.selection import Selection, WantedDisposition
from retrier.domain.text import LONG_BYTES, clean
from retrier.domain.values import dataclass
from retrier.store import approvals, batches, claims, edits, event_log, messages, operations
from retrier.store.attempts import find_originals
from retrier.store.engine.database import reading, writing
from retrier.store.engine.transaction import ConcurrentChange, StoredRow, Transaction, make_ids
from retrier.store.event_log import Entry
from retrier.store.holds import describe_held, is_any_strict
from retrier.store.operation_requests import find_keyed, reused
from retrier.store.schema import (
    failed_messages,
    message_edits,
    retry_operations,
)
from retrier.store.selections import from_json, to_json

rows = failed_messages.c


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundOriginal:
    """What is edited: the newest failure of a message, as it came."""

    attempt_id: int
    original: StoredOriginal


@reading
def find_original(tx: Transaction, unique_message_id: str) -> FoundOriginal | EditRefusal:
    """Return the newest failure of a message with its bytes. Raises DatabaseUnavailable."""
    key = canonical(unique_message_id) if is_guid(unique_message_id) else None
    query = select(rows.attempt_id).where(rows.unique_message_id == key)
    attempt_id = tx.execute(query).scalar_one_or_none()
    if attempt_id is None:
        return EditRefusal.UNKNOWN
    original = find_originals(tx, [attempt_id]).get(attempt_id)
    if original is None:
        return EditRefusal.DELETED
    return FoundOriginal(attempt_id=attempt_id, original=original)


@writing
def ask_edit(
    tx: Transaction, request: EditRequest, edited: EditedMessage, attempt_id: int
) -> AskedEdit | EditRefused:
    """Take an edit, with the claim of its message and a batch of its own; or say why not.

    The first one wins. `attempt_id` is the failure of which `edited` was made: one that has come
    since changes the message, and is to be looked at before. The same request under the same
    idempotency key gives the same edit again. Raises KeyReused, DatabaseUnavailable.
    """
    repeated = _find_repeated(tx, request)
    if repeated is not None:
        return repeated
    row = _lock(tx, request.unique_message_id)
    if row is None:
        return EditRefused(why=EditRefusal.UNKNOWN)
    if request.attempt_id not in (None, attempt_id):
        return _refuse(tx, row, request, EditRefused(why=EditRefusal.CHANGED))
    refused = _why_not(tx, row, attempt_id, dead=request.changes.dead)
    if refused is not None:
        return _refuse(tx, row, request, refused)
    edit_id, operation_id, retry_id = str(uuid4()), str(uuid4()), make_ids(1)[0]
    terms = request.approval
    is_asking = terms is not None and terms.rules.asks_for_edit
    batch_id = None if is_asking else _take(tx, row, edit_id, operation_id, retry_id)
    if batch_id is None and not is_asking:
        return _refuse(tx, row, request, EditRefused(why=EditRefusal.CLAIMED))
    _add_operation(tx, row, request, operation_id, is_asking=is_asking)
    if batch_id is not None:
        _add_batch(tx, batch_id, operation_id, edit_id)
    edits.add(
        tx,
        {
            "edit_id": edit_id,
            "number": row.number,
            "attempt_id": attempt_id,
            "operation_id": operation_id,
            "retry_id": retry_id,
            "who": clean(request.who),
            "why": None if request.why is None else clean(request.why, LONG_BYTES),
            "message_id": edited.message_id,
            "body_hash": body_hash(edited.body),
            "raw_properties": edited.raw,
            "body": edited.body,
        },
    )
    messages.note_edit(tx, row.number)
    event_log.append(tx, [_entry("message_edited", "an edit of it was asked for", row, request)])
    if terms is not None and is_asking:
        approvals.ask(
            tx,
            operation_id,
            terms,
            plan_hash=hash_plan(hash_edit(request), row.failure_seq, 1),
            total=1,
            asked_by=request.who,
            originator=_originator(row),
        )
    tx.sql.announce_request(tx.conn)
    return AskedEdit(edit_id=edit_id, operation_id=operation_id, is_asking=is_asking)


def begin_approved(tx: Transaction, operation_id: str) -> Mapping[str, object] | EditRefused:
    """Take the claim of the message of an edit that is approved; or say why it cannot be sent now.

    Until now anybody could retry, archive or resolve the message. Returns what becomes of its
    operation, which the caller changes after it: a cut finds nothing, and completes it.
    """
    query = (
        select(retry_operations.c.selection, rows.unique_message_id)
        .join_from(message_edits, failed_messages, rows.number == message_edits.c.number)
        .join(
            retry_operations,
            retry_operations.c.operation_id == message_edits.c.operation_id,
        )
        .where(edits.is_of(operation_id))
    )
    asked = tx.execute(query).one_or_none()
    row = None if asked is None else _lock(tx, asked.unique_message_id)
    edit = None if row is None else edits.find_waiting(tx, row.number)
    if asked is None or row is None or edit is None or edit.operation_id != operation_id:
        return EditRefused(why=EditRefusal.UNKNOWN)
    dead = from_json(asked.selection).disposition is not None
    refused = _why_not(tx, row, edit.attempt_id, dead=dead, own=edit.edit_id)
    if refused is not None:
        return refused
    batch_id = _take(tx, row, edit.edit_id, operation_id, edit.retry_id)
    if batch_id is None:
        return EditRefused(why=EditRefusal.CLAIMED)
    _add_batch(tx, batch_id, operation_id, edit.edit_id)
    return _begun(tx)


def _take(
    tx: Transaction, row: StoredRow, edit_id: str, operation_id: str, retry_id: str
) -> str | None:
    """Claim a message for an edit; return the id of the batch it is in. None: others were faster."""
    batch_id = str(uuid4())
    taken = claims.take_for_edit(tx, retry_id, edit_id, batch_id, operation_id, row)
    return batch_id if taken else None


def _add_batch(tx: Transaction, batch_id: str, operation_id: str, edit_id: str) -> None:
    # Nobody marks it: it has its claim. `session_id` says which process did, so here the edit's.
    batch = {"batch_id": batch_id, "operation_id": operation_id, "session_id": edit_id}
    batches.add(tx, {**batch, "status": RetryBatchStatus.STAGING, "initial_size": 1})


def _find_repeated(tx: Transaction, request: EditRequest) -> AskedEdit | None:
    if request.idempotency_key is None:
        return None
    row = find_keyed(tx, request.idempotency_key, retry_operations)
    if row is None:
        return None
    if row.request_hash != hash_edit(request):
        raise reused(row)
    return AskedEdit(
        edit_id=edits.find_of(tx, row.operation_id),
        operation_id=row.operation_id,
        is_asking=approvals.is_asked(tx, row.operation_id),
    )


def _lock(tx: Transaction, unique_message_id: str) -> StoredRow | None:
    ids = [canonical(unique_message_id)] if is_guid(unique_message_id) else []
    return next(iter(messages.lock_by_id(tx, ids)), None)


def _why_not(
    tx: Transaction, row: StoredRow, attempt_id: int, *, dead: bool, own: str | None = None
) -> EditRefused | None:
    """Return why a locked message is not edited; its claim is locked as well.

    `own` is the edit that waits for approval itself.
    """
    claimed = bool(claims.lock(tx, [row.number]))
    status, disposition = FailedMessageStatus(row.status), Disposition(row.disposition)
    why = why_not_edit(status, disposition, claimed=claimed, dead=dead)
    if why is not None:
        faster = _find_faster(tx, row)
        return EditRefused(why=why) if faster is None else faster
    waiting = edits.find_waiting(tx, row.number)
    if waiting is not None and waiting.edit_id != own:
        about = f"asked for by {waiting.who}"
        return EditRefused(why=EditRefusal.ASKED, about=about, who=waiting.who)
    if attempt_id != row.attempt_id:
        return EditRefused(why=EditRefusal.CHANGED)
    held = describe_held(tx, [row.number]) if is_any_strict(tx) else {}
    return EditRefused(why=EditRefusal.HELD, about=held[row.number]) if held else None


def _find_faster(tx: Transaction, row: StoredRow) -> EditRefused | None:
    """Say who was faster, of a message of which an edit is being sent or was sent last."""
    sent = row.status == FailedMessageStatus.RESOLVED and row.resolution == Resolution.EDITED
    who = edits.find_faster(tx, row.number, sent=sent)
    if who is None:
        return None
    return EditRefused(why=EditRefusal.EDITED, about=f"edited by {who}", who=who)


def _refuse(
    tx: Transaction, row: StoredRow, request: EditRequest, refused: EditRefused
) -> EditRefused:
    if refused.why is EditRefusal.EDITED and refused.who == clean(request.who):
        refused = replace(refused, why=EditRefusal.OWN)
    event_log.append(tx, [_entry("edit_refused", f"no edit: {refused}", row, request)])
    return refused


def _entry(kind: str, words: str, row: StoredRow, request: EditRequest) -> Entry:
    key, said = row.unique_message_id, f": {request.why}" if request.why else ""
    return Entry(kind=kind, text=f"{key}: {words}{said}", who=request.who, unique_message_id=key)


def _originator(row: StoredRow) -> str:
    return f"edit of message {row.unique_message_id}"


def _begun(tx: Transaction) -> Mapping[str, object]:
    """Return what is said of an operation that is cut already."""
    return {
        "state": RetryOperationState.PREPARING,
        "batches": 1,
        "started_at": tx.now,
        "last_cut": tx.now,
    }


def _add_operation(
    tx: Transaction, row: StoredRow, request: EditRequest, operation_id: str, *, is_asking: bool
) -> None:
    """Add its operation as one that is cut already: a second cut finds nothing, and completes it.

    One that waits for approval is paused, so that nothing cuts it before. That a dead message may be
    sent is part of its selection: it is looked at again when it is approved.
    """
    key = row.unique_message_id
    anyway = WantedDisposition.ANY if request.changes.dead else None
    added = operations.add(
        tx,
        {
            "operation_id": operation_id,
            "idempotency_key": request.idempotency_key,
            "request_hash": hash_edit(request),
            "retry_type": RetryType.EDIT,
            "selection": to_json(Selection(ids=(key,), disposition=anyway)),
            "cut_off": row.failure_seq,
            "floor": 1,
            "originator": _originator(row),
            "requested_by": request.who,
            "why": request.why,
            "priority": int(Priority.SMALL),
            "total": 1,
            "forwarded": 0,
            "skipped": 0,
            "failed": 0,
            **({"state": RetryOperationState.PAUSED, "batches": 0} if is_asking else _begun(tx)),
        },
    )
    if not added:
        # The same request came twice at once: the next try finds and returns the other operation.
        raise ConcurrentChange
    operations.add_named(tx, operation_id, [key], {key: row.number})
