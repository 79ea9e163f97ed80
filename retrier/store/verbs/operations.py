"""Creating retry operations: frozen with their cut-off, durable before the answer is given."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import uuid4

from sqlalchemy import func, select

from retrier.domain.failed_message import FailedMessageStatus
from retrier.domain.identity import canonical, is_guid
from retrier.domain.retry_operation import RetryOperationState, RetryRequest
from retrier.domain.selection import Selection
from retrier.errors import KeyReused
from retrier.store.engine.database import Database, writing
from retrier.store.engine.sql_dialect import Counter
from retrier.store.engine.transaction import ConcurrentChange, StoredRow, Transaction
from retrier.store.queries.selections import conditions, to_json
from retrier.store.schema import failed_messages, retry_operation_messages, retry_operations
from retrier.store.tables import event_log
from retrier.store.tables import retry_operation_messages as named
from retrier.store.tables import retry_operations as operations
from retrier.store.tables.event_log import Entry

messages = failed_messages.c


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedOperation:
    """The answer to a request; `repeated`: an earlier request with its key created it."""

    operation_id: str
    total: int
    repeated: bool


def create_operation(db: Database, request: RetryRequest) -> CreatedOperation:
    """Freeze the request: its selection, cut-off and total, durable when this returns.

    A message that fails after this has a higher failure number and is not part of it. The cut-off
    is taken in a short transaction of its own, because ingestion waits for that; counting a
    million messages takes a while and comes afterwards. Raises KeyReused, DatabaseUnavailable.
    """
    return _create_operation(db, request, _take_cut_off(db))


@writing
def _take_cut_off(tx: Transaction) -> int:
    tx.sql.take_cut_off(tx.conn)
    return tx.sql.last_number(tx.conn, Counter.FAILURE_SEQ)


@writing
def _create_operation(tx: Transaction, request: RetryRequest, cut_off: int) -> CreatedOperation:
    return find_repeated(tx, request, request.selection) or freeze(tx, request, cut_off)


def freeze(tx: Transaction, request: RetryRequest, cut_off: int) -> CreatedOperation:
    """Add the operation; the caller has made the cut-off exact for the messages selected."""
    total = _count(tx, request, cut_off)
    operation_id = str(uuid4())
    added = operations.add(
        tx,
        {
            "operation_id": operation_id,
            "retry_type": request.retry_type,
            "selection": to_json(request.selection),
            "cut_off": cut_off,
            "floor": 0,
            "originator": request.originator,
            "requested_by": request.requested_by,
            "why": request.why,
            "priority": int(request.priority),
            "state": RetryOperationState.WAITING,
            "total": total,
            "forwarded": 0,
            "skipped": 0,
            "failed": 0,
            "batches": 0,
            "idempotency_key": request.idempotency_key,
        },
    )
    if not added:
        # The same request came twice at once: the next try finds and returns the other operation.
        raise ConcurrentChange
    _name_messages(tx, operation_id, request.selection.ids or ())
    asked = Entry(
        kind="retry_asked",
        text=f"{request.originator}: a retry of {total} messages was asked for",
        who=request.requested_by,
        operation_id=operation_id,
    )
    event_log.append(tx, [asked])
    tx.sql.announce_request(tx.conn)
    return CreatedOperation(operation_id=operation_id, total=total, repeated=False)


def find_repeated(
    tx: Transaction, request: RetryRequest, selection: Selection | None
) -> CreatedOperation | None:
    """Return the operation that this same request created under its idempotency key.

    Without a `selection`, the originator is compared instead. Raises KeyReused if a different
    request had the key: answering with its operation would drop this one silently (0010).
    """
    if request.idempotency_key is None:
        return None
    key = retry_operations.c.idempotency_key == request.idempotency_key
    row = tx.execute(select(retry_operations).where(key)).first()
    if row is None:
        return None
    if row.retry_type != request.retry_type or not _is_same(tx, row, request, selection):
        raise KeyReused(f"This Idempotency-Key was used for another request: {row.originator}.")
    return CreatedOperation(operation_id=row.operation_id, total=row.total, repeated=True)


def _count(tx: Transaction, request: RetryRequest, cut_off: int) -> int:
    if request.selection.ids is not None:
        return len(set(request.selection.ids))
    query = (
        select(func.count())
        .select_from(failed_messages)
        .where(
            messages.status == FailedMessageStatus.UNRESOLVED,
            messages.failure_seq <= cut_off,
            *conditions(request.selection),
        )
    )
    return int(tx.execute(query).scalar_one())


def _name_messages(tx: Transaction, operation_id: str, ids: Sequence[str]) -> None:
    """Store the ids, with the numbers of the messages that have them now."""
    if ids:
        named.add(tx, operation_id, ids, _find_numbers(tx, ids))


def _find_numbers(tx: Transaction, ids: Sequence[str]) -> Mapping[str, int]:
    wanted = {unique_id: canonical(unique_id) for unique_id in ids if is_guid(unique_id)}
    query = select(messages.unique_message_id, messages.number).where(
        tx.sql.member(messages.unique_message_id, sorted({*wanted.values()}))
    )
    found = {row[0]: row[1] for row in tx.execute(query)} if wanted else {}
    return {unique_id: found[key] for unique_id, key in wanted.items() if key in found}


def _is_same(
    tx: Transaction, row: StoredRow, request: RetryRequest, selection: Selection | None
) -> bool:
    if selection is None:
        return bool(row.originator == request.originator)
    if row.selection != to_json(selection):
        return False
    if selection.ids is None:
        return True
    ids = retry_operation_messages.c
    query = select(ids.unique_message_id).where(ids.operation_id == row.operation_id)
    # The originator distinguishes a retry from a retry of pending ones.
    known = set(tx.execute(query).scalars())
    return bool(row.originator == request.originator) and known == set(selection.ids)
