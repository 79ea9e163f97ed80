"""Creating retry operations: frozen with their cut-off, durable before the answer is given."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from uuid import uuid4

from sqlalchemy import func, select

from retrier.domain.retry_operation import (
    RetryOperationState,
    RetryRequest,
    RetryTerms,
    hash_request,
)
from retrier.domain.selection import Selection
from retrier.store.engine.database import Database, writing
from retrier.store.engine.transaction import ConcurrentChange, StoredRow, Transaction
from retrier.store.queries.named import judge, look_up
from retrier.store.queries.operations import read_skipped
from retrier.store.queries.selections import (
    are_dead,
    conditions,
    last_number,
    may_be_retried,
    take_cut_off,
    to_json,
)
from retrier.store.schema import (
    failed_messages,
    retry_operations,
)
from retrier.store.tables import event_log
from retrier.store.tables import retry_operation_canaries as canaries
from retrier.store.tables import retry_operation_messages as named
from retrier.store.tables import retry_operations as operations
from retrier.store.tables.event_log import Entry
from retrier.store.verbs.idempotency_keys import find_keyed, reused

messages = failed_messages.c


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedOperation:
    """The answer to a request; `repeated` when its idempotency key was known already.

    `skipped` gives for each named id that cannot be retried as things are the reason: the cut
    will skip it, unless it changes before. `dead_left_out` counts the dead messages that match, and
    that were not asked for.
    """

    operation_id: str
    total: int
    repeated: bool
    skipped: Mapping[str, str] = field(default_factory=dict)
    dead_left_out: int = 0


def create_operation(db: Database, request: RetryRequest) -> CreatedOperation:
    """Freeze the request: its selection, cut-off and total, durable when this returns.

    A message that fails after this has a higher failure number and is not part of it; with the
    cut-off of a preview, neither is what failed after that. Counting a million messages takes a
    while and comes after the cut-off is taken. Raises KeyReused, DatabaseUnavailable.
    """
    if request.cut_off is None:
        return _create_operation(db, request, take_cut_off(db))
    # Nobody can have counted what has no number yet, whatever the plan says.
    return _create_operation(db, request, min(request.cut_off, last_number(db)))


@writing
def _create_operation(tx: Transaction, request: RetryRequest, cut_off: int) -> CreatedOperation:
    repeated = find_repeated(tx, request, request.selection)
    if repeated is None:
        return freeze(tx, request, cut_off)
    ids = request.selection.ids or ()
    return replace(repeated, skipped=_find_skipped(tx, repeated.operation_id, ids))


def freeze(tx: Transaction, request: RetryRequest, cut_off: int) -> CreatedOperation:
    """Add the operation; the caller has made the cut-off exact for the messages selected."""
    total = _count(tx, request, cut_off)
    dead = _count_dead(tx, request.selection, cut_off)
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
            "dead_left_out": dead,
            "forwarded": 0,
            "skipped": 0,
            "failed": 0,
            "batches": 0,
            "idempotency_key": request.idempotency_key,
            "request_hash": hash_request(request),
            **_terms(tx, request.terms),
        },
    )
    if not added:
        # The same request came twice at once: the next try finds and returns the other operation.
        raise ConcurrentChange
    if request.terms.canary is not None:
        canaries.add(tx, operation_id, request.terms.canary)
    skipped = _name_messages(tx, operation_id, request.selection.ids or (), cut_off)
    asked = Entry(
        kind="retry_asked",
        text=f"{request.originator}: a retry of {total} messages was asked for",
        who=request.requested_by,
        operation_id=operation_id,
    )
    event_log.append(tx, [asked])
    tx.sql.announce_request(tx.conn)
    return CreatedOperation(
        operation_id=operation_id,
        total=total,
        repeated=False,
        skipped=skipped,
        dead_left_out=dead,
    )


def _terms(tx: Transaction, terms: RetryTerms) -> dict[str, object]:
    not_before = terms.not_before if terms.delay is None else tx.now + terms.delay
    delay = None if terms.delay is None else round(terms.delay.total_seconds() * 1000)
    # Without any, the column is NULL, and not the value null of JSON.
    dropped = {"drop_headers": list(terms.drop_headers)} if terms.drop_headers else {}
    return {
        **dropped,
        "delay_ms": delay,
        "message_limit": terms.limit,
        "destination": terms.destination,
        "not_before": not_before,
        "rate": terms.rate,
    }


def find_repeated(
    tx: Transaction, request: RetryRequest, selection: Selection | None
) -> CreatedOperation | None:
    """Return the operation that this same request created under its idempotency key.

    Without a `selection`, the originator is compared instead. Raises KeyReused if a different
    request had the key: answering with its operation would drop this one silently (0010).
    """
    if request.idempotency_key is None:
        return None
    row = find_keyed(tx, request.idempotency_key, retry_operations)
    if row is None:
        return None
    if row.retry_type != request.retry_type or not _is_same(row, request, selection):
        raise reused(row)
    return CreatedOperation(
        operation_id=row.operation_id,
        total=row.total,
        repeated=True,
        dead_left_out=row.dead_left_out,
    )


def _count(tx: Transaction, request: RetryRequest, cut_off: int) -> int:
    """Count what the operation is about, its limit at most: counting ends there."""
    selection, limit = request.selection, request.terms.limit
    if selection.ids is not None:
        named_once = len(set(selection.ids))
        return named_once if limit is None else min(named_once, limit)
    matching = select(messages.number).where(
        messages.failure_seq <= cut_off, *may_be_retried(selection), *conditions(selection)
    )
    query = select(func.count()).select_from(matching.limit(limit).subquery())
    return int(tx.execute(query).scalar_one())


def _count_dead(tx: Transaction, selection: Selection, cut_off: int) -> int:
    """Count the messages that match and that an operation leaves out, because they are dead."""
    if selection.ids is not None or selection.disposition is not None:
        return 0
    matching = (are_dead(), messages.failure_seq <= cut_off, *conditions(selection))
    query = select(func.count()).select_from(failed_messages).where(*matching)
    return int(tx.execute(query).scalar_one())


def _name_messages(
    tx: Transaction, operation_id: str, ids: Sequence[str], cut_off: int
) -> Mapping[str, str]:
    """Write the ids down with their messages' numbers; return why some cannot be retried now."""
    if not ids:
        return {}
    found = look_up(tx, ids)
    named.add(tx, operation_id, ids, {key: row.number for key, row in found.items()})
    return judge(tx, ids, found, cut_off)


def _find_skipped(tx: Transaction, operation_id: str, ids: Sequence[str]) -> Mapping[str, str]:
    """Return why some of these ids are skipped: as things are, or as the operation recorded it.

    Once it has begun, a message whose retry was issued was not skipped: this operation issued it.
    """
    begun = select(retry_operations.c.state, retry_operations.c.cut_off)
    row = tx.execute(begun.where(retry_operations.c.operation_id == operation_id)).one()
    if row.state == RetryOperationState.WAITING:
        return judge(tx, ids, look_up(tx, ids), row.cut_off)
    return read_skipped(tx, operation_id)


def _is_same(row: StoredRow, request: RetryRequest, selection: Selection | None) -> bool:
    if selection is None:
        return bool(row.originator == request.originator)
    return bool(row.request_hash == hash_request(replace(request, selection=selection)))
