"""What people ask of retry operations: created, paused, resumed, cancelled, acknowledged."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime, timedelta
from typing import assert_never
from uuid import uuid4

from sqlalchemy import ColumnElement, Table, case, exists, func, or_, select

from retrier.domain.approval import ApprovalState, hash_plan
from retrier.domain.identity import canonical, is_guid
from retrier.domain.retry_batch import RetryBatchStatus
from retrier.domain.retry_operation import (
    CanaryState,
    Cancel,
    Order,
    Pause,
    Resume,
    RetryOperation,
    RetryOperationState,
    RetryRequest,
    RetryTerms,
    SetRate,
    Steered,
    SteeringRefusal,
    hash_request,
    is_done,
    refuse,
)
from retrier.domain.selection import Selection
from retrier.domain.text import count_messages
from retrier.domain.values import dataclass
from retrier.errors import KeyReused
from retrier.store import approvals, edits, event_log, operations
from retrier.store.engine.database import Database, writing
from retrier.store.engine.transaction import ConcurrentChange, StoredRow, Transaction
from retrier.store.event_log import Entry
from retrier.store.marking import judge_named, look_up_named
from retrier.store.operation_lists import (
    find_unacknowledged,
    find_unacknowledged_like,
    operation_from_row,
    read_skipped,
    whole_operations,
)
from retrier.store.schema import (
    archive_operations,
    failed_messages,
    retry_batches,
    retry_operations,
)
from retrier.store.selections import (
    are_dead,
    conditions,
    freeze_words,
    last_number,
    may_be_retried,
    take_cut_off,
    to_json,
)

messages = failed_messages.c
columns = retry_operations.c


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedOperation:
    """The answer to a request; `repeated` when its idempotency key was known already.

    `skipped` gives for each named id that cannot be retried as things are the reason: the cut
    will skip it, unless it changes before. `dead_left_out` counts the dead messages that match, and
    that were not asked for. `is_asking`: it waits for approval by a second person.
    """

    operation_id: str
    total: int
    repeated: bool
    skipped: Mapping[str, str] = field(default_factory=dict)
    dead_left_out: int = 0
    is_asking: bool = False


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
    return replace(repeated, skipped=_find_skipped(tx, repeated.operation_id, request.selection))


def freeze(tx: Transaction, request: RetryRequest, cut_off: int) -> CreatedOperation:
    """Add the operation; the caller has made the cut-off exact for the messages selected.

    One that has to wait for a second person is added as paused, so that nothing ever cuts it before.
    """
    # The hash is that of the words: the same request again would find other messages by now.
    operation_id, request_hash = str(uuid4()), hash_request(request)
    meant = request.selection
    eligible = (messages.failure_seq <= cut_off, *may_be_retried(meant))
    frozen = freeze_words(tx, meant, *eligible, limit=request.terms.limit)
    request = replace(request, selection=frozen)
    total = _count(tx, request, cut_off)
    dead = _count_dead(tx, meant, cut_off)
    terms = request.approval
    is_asking = terms is not None and (
        terms.ask_for(request.selection, total)
        or (request.terms.patch is not None and terms.rules.asks_for_edit)
    )
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
            "state": RetryOperationState.PAUSED if is_asking else RetryOperationState.WAITING,
            "total": total,
            "dead_left_out": dead,
            "forwarded": 0,
            "skipped": 0,
            "failed": 0,
            "batches": 0,
            "idempotency_key": request.idempotency_key,
            "request_hash": request_hash,
            **_terms(tx, request.terms),
        },
    )
    if not added:
        # The same request came twice at once: the next try finds and returns the other operation.
        raise ConcurrentChange
    if request.terms.canary is not None:
        operations.add_canary(tx, operation_id, request.terms.canary)
    skipped = _name_messages(tx, operation_id, request.selection, cut_off)
    asked = Entry(
        kind="retry_asked",
        text=f"{request.originator}: a retry of {count_messages(total)} was asked for",
        who=request.requested_by,
        operation_id=operation_id,
    )
    event_log.append(tx, [asked])
    if terms is not None and is_asking:
        approvals.ask(
            tx,
            operation_id,
            terms,
            plan_hash=hash_plan(request_hash, cut_off, total),
            total=total,
            asked_by=request.requested_by,
            originator=request.originator,
        )
    tx.sql.announce_request(tx.conn)
    return CreatedOperation(
        operation_id=operation_id,
        total=total,
        repeated=False,
        skipped=skipped,
        dead_left_out=dead,
        is_asking=is_asking,
    )


def _terms(tx: Transaction, terms: RetryTerms) -> dict[str, object]:
    not_before = terms.not_before if terms.delay is None else tx.now + terms.delay
    delay = None if terms.delay is None else round(terms.delay.total_seconds() * 1000)
    # Without any, the column is NULL, and not the value null of JSON.
    dropped = {"drop_headers": list(terms.drop_headers)} if terms.drop_headers else {}
    patched = {} if terms.patch is None else {"patch": terms.patch}
    return {
        **dropped,
        **patched,
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
        is_asking=approvals.is_asked(tx, row.operation_id),
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
    tx: Transaction, operation_id: str, selection: Selection, cut_off: int
) -> Mapping[str, str]:
    """Write the ids down with their messages' numbers; return why some cannot be retried now."""
    ids = selection.ids or ()
    if not ids:
        return {}
    found = look_up_named(tx, ids)
    operations.add_named(tx, operation_id, ids, {key: row.number for key, row in found.items()})
    return judge_named(tx, ids, found, cut_off, selection.within)


def _find_skipped(tx: Transaction, operation_id: str, selection: Selection) -> Mapping[str, str]:
    """Return why some of these ids are skipped: as things are, or as the operation recorded it.

    Once it has begun, a message whose retry was issued was not skipped: this operation issued it.
    """
    begun = select(retry_operations.c.state, retry_operations.c.cut_off)
    row = tx.execute(begun.where(retry_operations.c.operation_id == operation_id)).one()
    if row.state == RetryOperationState.WAITING or approvals.is_asked(tx, operation_id):
        ids = selection.ids or ()
        return judge_named(tx, ids, look_up_named(tx, ids), row.cut_off, selection.within)
    return read_skipped(tx, operation_id)


def _is_same(row: StoredRow, request: RetryRequest, selection: Selection | None) -> bool:
    if selection is None:
        return bool(row.originator == request.originator)
    return bool(row.request_hash == hash_request(replace(request, selection=selection)))


@writing
def steer_operation(
    tx: Transaction, operation_id: str, orders: Sequence[Order], who: str
) -> Steered | SteeringRefusal:
    """Carry out these orders at an operation, or none of them, and wake the processor.

    One transaction. An order that is carried out already changes nothing and is no mistake: the
    first answer may have been lost. Raises DatabaseUnavailable.
    """
    key = canonical(operation_id) if is_guid(operation_id) else None
    row = tx.execute(whole_operations().where(columns.operation_id == key)).mappings().first()
    if row is None:
        return SteeringRefusal.UNKNOWN
    operation = operation_from_row(dict(row))
    asked, standing = operation.cancel_asked, operation.is_standing
    for order in orders:
        why = refuse(
            order,
            operation.state,
            cancel_asked=asked,
            standing=standing,
            asking=operation.is_asking,
        )
        if why is not None:
            return why
    due = [order for order in orders if not _is_done(order, operation, tx.now)]
    if due:
        # Only if it is in the state that was read. Raises ConcurrentChange if it is not.
        values = {name: value for order in due for name, value in _find_values(order, operation)}
        operations.change(tx, operation.operation_id, {operation.state}, values)
        if operation.is_asking and values.get("cancel_asked"):
            approvals.end(tx, operation.operation_id, ApprovalState.LAPSED, None)
            edits.drop_unapproved(tx, operation.operation_id, f"{who} has cancelled it")
        event_log.append(tx, [_entry(order, operation, who) for order in due])
        tx.sql.announce_request(tx.conn)
    return Steered(operation_id=operation.operation_id, changed=bool(due))


def _is_done(order: Order, operation: RetryOperation, now: datetime) -> bool:
    asked, due = operation.cancel_asked, operation.next_cut
    if isinstance(order, SetRate) and due is not None and due > now + _LONGEST_PACE:
        # The clock was set back, or the rate was very low: the same rate again frees it.
        return False
    return is_done(order, operation.state, cancel_asked=asked, rate=operation.rate)


_LONGEST_PACE = timedelta(seconds=2)
"""Longer than any rate lets a cut wait."""


def _find_values(order: Order, operation: RetryOperation) -> Iterator[tuple[str, object]]:
    canary = operation.canary and operation.canary.state
    match order:
        case Pause():
            yield "state", RetryOperationState.PAUSED
        case Resume():
            yield "state", _where_it_stood()
            if canary is CanaryState.FAILED:
                # A person has decided: what came back is no reason to stand still any more.
                yield "reason", None
        case Cancel():
            yield "cancel_asked", True
            if canary is CanaryState.FAILED:
                yield "reason", None
        case SetRate(rate):
            yield "rate", rate
            if canary is not CanaryState.WAITING:
                # The next cut does not wait until it is due by the old rate.
                yield "next_cut", None
        case _ as never:
            assert_never(never)


def _where_it_stood() -> ColumnElement[str]:
    """Return the open state of an operation that is resumed.

    Not *waiting* if a batch was opened: a batch of a waiting operation would be a fault.
    """
    batches = retry_batches.c
    forwarding = exists(select(batches.batch_id)).where(
        batches.operation_id == columns.operation_id,
        batches.status == RetryBatchStatus.FORWARDING,
    )
    return case(
        (columns.started_at.is_(None), RetryOperationState.WAITING.value),
        (
            or_(columns.forwarded + columns.failed > 0, forwarding),
            RetryOperationState.FORWARDING.value,
        ),
        else_=RetryOperationState.PREPARING.value,
    )


def _entry(order: Order, operation: RetryOperation, who: str) -> Entry:
    kind, words = _told(order)
    text = f"{operation.originator}: {words}"
    return Entry(kind=kind, text=text, who=who, operation_id=operation.operation_id)


def _told(order: Order) -> tuple[str, str]:
    match order:
        case Pause():
            return "operation_paused", "paused"
        case Resume():
            return "operation_resumed", "goes on"
        case Cancel():
            return "cancel_asked", "its end was asked for"
        case SetRate(rate):
            limited = rate is not None and f"{count_messages(rate)} a second at most"
            return "operation_rate", limited or "its rate is not limited any more"
        case _ as never:
            assert_never(never)


@writing
def acknowledge_group(tx: Transaction, group_id: str, who: str) -> bool:
    """Note that the finished retries of a group were seen; false if there was none to see.

    Raises DatabaseUnavailable.
    """
    return _note_seen(tx, find_unacknowledged(tx, group_id), who)


@writing
def acknowledge_operation(tx: Transaction, operation_id: str, who: str) -> bool:
    """Note that a finished retry was seen, and earlier ones that asked for the same.

    Of each request only the last one is shown: without the earlier ones, the next of them would
    take its place. False if there was none to see. Raises DatabaseUnavailable.
    """
    return _note_seen(tx, find_unacknowledged_like(tx, operation_id), who)


def _note_seen(tx: Transaction, found: Sequence[str], who: str) -> bool:
    operations.acknowledge(tx, found)
    event_log.append(tx, [entry_of_acknowledgement(each, who) for each in found])
    return bool(found)


def entry_of_acknowledgement(operation_id: str, who: str) -> Entry:
    """Return the entry of a person who has seen that an operation is over."""
    text = "somebody has seen that it is over"
    return Entry(kind="acknowledged", text=text, who=who, operation_id=operation_id)


_KEYED = (retry_operations, archive_operations)
"""Requests of all kinds share one namespace of idempotency keys."""


def find_keyed(tx: Transaction, key: str, own: Table) -> StoredRow | None:
    """Return the row of this table that has the key; None if no request has it.

    Nobody else can take the key until this transaction ends. Call it before locking any row.
    Raises KeyReused if it is in another table: that is a request of another kind.
    """
    tx.sql.reserve_key(tx.conn, key)
    # Its own first: a request that is sent again is found by one query.
    for table in (own, *(other for other in _KEYED if other is not own)):
        row = tx.execute(select(table).where(table.c.idempotency_key == key)).first()
        if row is not None and table is not own:
            raise reused(row)
        if row is not None:
            return row
    return None


def reused(row: StoredRow) -> KeyReused:
    """Return the error that says which request had the key."""
    return KeyReused(f"This Idempotency-Key was used for another request: {row.originator}.")
