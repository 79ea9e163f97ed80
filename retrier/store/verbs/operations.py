"""Retry operations: created with their cut-off, completed when nothing is left to cut."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import uuid4

from sqlalchemy import Connection, Row, bindparam, case, func, select, update

from retrier.domain.failed_message import FailedMessageStatus
from retrier.domain.retry_operation import (
    Priority,
    RetryOperation,
    RetryOperationState,
    RetryRequest,
    RetryType,
)
from retrier.domain.selection import Selection
from retrier.errors import KeyReused
from retrier.store import event_log, selections
from retrier.store.database import ConcurrentChange, Database
from retrier.store.event_log import Event
from retrier.store.schema import failed_messages, retry_operation_messages, retry_operations
from retrier.store.schema.types import UtcTime

operations = retry_operations.c
messages = failed_messages.c

_NOTHING = "nothing to retry: no unresolved message matched when it was asked for"
_NOW = bindparam("now", type_=UtcTime)
_COMPLETE = (
    update(retry_operations)
    .where(
        operations.operation_id == bindparam("operation"),
        operations.state.in_([RetryOperationState.PREPARING, RetryOperationState.FORWARDING]),
    )
    .values(
        state=RetryOperationState.COMPLETED,
        skipped=operations.total - operations.forwarded - operations.failed,
        reason=case((operations.total == 0, _NOTHING), else_=None),
        completed_at=_NOW,
        modified_at=_NOW,
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedOperation:
    """The answer to a request; `repeated` when its idempotency key was known already."""

    operation_id: str
    total: int
    repeated: bool


def create_operation(db: Database, request: RetryRequest) -> CreatedOperation:
    """Freeze the request: its selection, cut-off and total, durable when this returns.

    A message that fails after this has a higher failure number and is not part of it. Raises
    KeyReused, DatabaseUnavailable.
    """
    return db.transact(partial(_create, db, request))


def _create(db: Database, request: RetryRequest, conn: Connection) -> CreatedOperation:
    db.sql.take_cut_off(conn)
    known = find_repeated(conn, request, request.selection)
    return known or freeze(db, conn, request)


def freeze(db: Database, conn: Connection, request: RetryRequest) -> CreatedOperation:
    """Write the operation down, inside a transaction in which the cut-off is exact.

    Either it holds the cut-off lock, or it has locked every message that the request names.
    """
    cut_off = db.sql.last_failure_seq(conn)
    total = _count(conn, request, cut_off)
    now = db.sql.now(conn)
    operation_id = str(uuid4())
    inserted = conn.execute(
        db.sql.insert(retry_operations)
        .values(
            operation_id=operation_id,
            retry_type=request.retry_type,
            selection=selections.to_json(request.selection),
            cut_off=cut_off,
            floor=0,
            originator=request.originator,
            requested_by=request.requested_by,
            why=request.why,
            priority=int(request.priority),
            state=RetryOperationState.WAITING,
            total=total,
            forwarded=0,
            skipped=0,
            failed=0,
            batches=0,
            idempotency_key=request.idempotency_key,
            created_at=now,
            modified_at=now,
        )
        .on_conflict_do_nothing(index_elements=["idempotency_key"])
        .returning(operations.operation_id)
    )
    if inserted.first() is None:
        # The same request was sent twice at once: the other one's operation answers both.
        raise ConcurrentChange
    _insert_ids(conn, operation_id, request)
    asked = Event(
        kind="retry_asked",
        text=f"{request.originator}: a retry of {total} messages was asked for",
        who=request.requested_by,
        operation_id=operation_id,
    )
    event_log.append(conn, now, [asked])
    db.sql.announce_request(conn)
    return CreatedOperation(operation_id=operation_id, total=total, repeated=False)


def find_repeated(
    conn: Connection, request: RetryRequest, selection: Selection | None
) -> CreatedOperation | None:
    """Return the operation that this same request created under its idempotency key.

    A `selection` that is None was looked up, and is not compared. Raises KeyReused if another
    request had the key: to answer with that one's operation would drop this one without a word.
    """
    if request.idempotency_key is None:
        return None
    query = select(retry_operations).where(operations.idempotency_key == request.idempotency_key)
    row = conn.execute(query).first()
    if row is None:
        return None
    if row.retry_type != request.retry_type or not _is_same(conn, row, request, selection):
        raise KeyReused(f"This Idempotency-Key was used for another request: {row.originator}.")
    return CreatedOperation(operation_id=row.operation_id, total=row.total, repeated=True)


def complete(conn: Connection, operation_id: str, now: object) -> None:
    """Close an operation off which an empty cut came and of which no batch is alive.

    What is neither forwarded nor failed was skipped: archived, resolved, claimed by another
    operation or failed again before its turn.
    """
    conn.execute(_COMPLETE, {"operation": operation_id, "now": now})


def from_row(row: Mapping[str, Any]) -> RetryOperation:
    """Return a row of retry_operations as the domain's value."""
    names = (
        "operation_id cut_off floor originator requested_by why total forwarded skipped failed "
        "batches reason not_before created_at started_at completed_at modified_at"
    )
    return RetryOperation(
        retry_type=RetryType(row["retry_type"]),
        selection=selections.from_json(row["selection"]),
        priority=Priority(row["priority"]),
        state=RetryOperationState(row["state"]),
        **{name: row[name] for name in names.split()},
    )


def _count(conn: Connection, request: RetryRequest, cut_off: int) -> int:
    if request.selection.ids is not None:
        return len(set(request.selection.ids))
    query = (
        select(func.count())
        .select_from(failed_messages)
        .where(
            messages.status == FailedMessageStatus.UNRESOLVED,
            messages.failure_seq <= cut_off,
            *selections.where(request.selection),
        )
    )
    return conn.execute(query).scalar_one()


def _is_same(
    conn: Connection,
    row: Row[*tuple[Any, ...]],
    request: RetryRequest,
    selection: Selection | None,
) -> bool:
    if selection is None:
        return bool(row.originator == request.originator)
    if row.selection != selections.to_json(selection):
        return False
    if selection.ids is None:
        return True
    named = retry_operation_messages.c
    query = select(named.unique_message_id).where(named.operation_id == row.operation_id)
    # The words tell a retry from one that is retried again.
    known = set(conn.execute(query).scalars())
    return bool(row.originator == request.originator) and known == set(selection.ids)


def _insert_ids(conn: Connection, operation_id: str, request: RetryRequest) -> None:
    ids = dict.fromkeys(request.selection.ids or ())
    rows = [
        {"operation_id": operation_id, "position": position, "unique_message_id": unique_id}
        for position, unique_id in enumerate(ids, start=1)
    ]
    if rows:
        conn.execute(retry_operation_messages.insert(), rows)
