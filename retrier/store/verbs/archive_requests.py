"""Requests to archive, unarchive or resolve: done at once if they are small, else written down."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from uuid import uuid4

from sqlalchemy import select

from retrier.domain.archive_operation import (
    AT_ONCE,
    OPPOSITE,
    ArchiveOperation,
    ArchiveOperationState,
    ArchiveRequest,
    distinct,
    hash_archive_request,
    parts_to_store,
    select_for,
)
from retrier.domain.selection import Selection
from retrier.store.engine.database import Database, writing
from retrier.store.engine.sql_dialect import NumberSource
from retrier.store.engine.transaction import ConcurrentChange, Transaction
from retrier.store.queries.archive_chunks import count_matches, find_first
from retrier.store.queries.archive_operations import archive_from_row, is_any_open
from retrier.store.queries.selections import known_by_now, last_number, take_cut_off
from retrier.store.schema import archive_operations
from retrier.store.tables import archive_operation_messages as named
from retrier.store.tables import archive_operations as operations
from retrier.store.tables import event_log
from retrier.store.verbs.bulk_entries import tell_asked
from retrier.store.verbs.idempotency_keys import find_keyed, reused
from retrier.store.verbs.message_actions import Action, ActionResult, change, tell_refusals


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedArchive:
    """The operation of a request; `repeated` when its idempotency key was known already."""

    operation: ArchiveOperation
    repeated: bool


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
    """All messages that a request is about, and the condition on them; None if they are named.

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
        few = Few(unique_ids=named_ids, selection=None)
        return few if len(named_ids) <= at_once else None
    opposite = OPPOSITE.get(request.act)
    if opposite is not None and is_any_open(db, opposite):
        # It goes behind the other one: what that one has not done yet is to be taken back, too.
        return None
    bounded = replace(select_for(request.act, request.selection), up_to=last_number(db))
    found = find_first(db, bounded, at_once + 1)
    return Few(unique_ids=found, selection=bounded) if len(found) <= at_once else None


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
    event_log.append(tx, list(tell_refusals(action, acted)))
    cut_off = tx.sql.last_number(tx.conn, NumberSource.FAILURE_SEQ)
    return _add(tx, request, operation_id, {"cut_off": cut_off, **_done(tx, acted)})


@writing
def write_down(tx: Transaction, request: ArchiveRequest, cut_off: int) -> AskedArchive:
    """Add the operation, of which nothing is done yet. Raises KeyReused."""
    repeated = _find_repeated(tx, request)
    if repeated is not None:
        return repeated
    operation_id = str(uuid4())
    ids = distinct(request.selection.ids or ())
    selection = select_for(request.act, request.selection)
    bounded = replace(selection, up_to=cut_off)
    total = len(ids) if selection.ids is not None else count_matches(tx, bounded)
    asked = _add(tx, request, operation_id, {"cut_off": cut_off, **_to_do(total)})
    if ids:
        named.add(tx, operation_id, ids)
    event_log.append(tx, [tell_asked(request, operation_id, total)])
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
    if not operations.add(tx, row):
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
