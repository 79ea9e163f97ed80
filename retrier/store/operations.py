"""Retry operations (`retry_operations`): added, cut, counted, completed.

With them the ids named in a request (`retry_operation_messages`), what became of their retries
(`retry_operation_outcomes`), and the canaries: the few messages of an operation that are sent first
(`retry_operation_canaries`).
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache

from sqlalchemy import (
    ColumnElement,
    Update,
    bindparam,
    case,
    delete,
    func,
    insert,
    or_,
    select,
    true,
    update,
)

from retrier.domain.outcomes import RetryOutcome
from retrier.domain.retry_operation import (
    ALIVE,
    OPEN_STATES,
    Canary,
    CanaryState,
    RetryOperation,
    RetryOperationState,
    RetryType,
)
from retrier.domain.values import dataclass
from retrier.store.engine.sql_dialect import SqlDialect
from retrier.store.engine.transaction import ConcurrentChange, Transaction
from retrier.store.event_log import short
from retrier.store.schema import (
    failed_message_retries,
    retry_operation_canaries,
    retry_operation_messages,
    retry_operation_outcomes,
    retry_operations,
)
from retrier.store.schema.operations import OUTCOME_COLUMNS
from retrier.store.schema.types import UtcTime

operations = retry_operations.c
named = retry_operation_messages.c
canaries = retry_operation_canaries.c
claims = failed_message_retries.c


_NOTHING = "nothing to retry: no unresolved message matched when it was asked for"
_KEY = operations.operation_id == bindparam("operation")
_NOW = bindparam("now", type_=UtcTime)
_REST = operations.total - operations.forwarded - operations.failed
"""What is skipped in the end: all that was neither forwarded nor failed."""
# Made once: SQLAlchemy takes longer to make a statement than to execute it.
_BEGIN_CUT = (
    update(retry_operations)
    .where(
        _KEY,
        operations.state == bindparam("before"),
        operations.floor == bindparam("from"),
        operations.cancel_asked.is_(False),
    )
    .values(
        state=bindparam("after"),
        last_cut=_NOW,
        started_at=func.coalesce(operations.started_at, _NOW),
        modified_at=_NOW,
    )
)
_NOTE_CUT = (
    update(retry_operations)
    .where(_KEY)
    .values(
        # Who looks again from the beginning (`look_again`) between the two transactions of a cut
        # has put the floor back: it stays there, or what was left out before is lost.
        floor=case(
            (operations.floor == bindparam("from"), bindparam("to")), else_=operations.floor
        ),
        skipped=operations.skipped + bindparam("more_skipped"),
        batches=operations.batches + bindparam("more_batches"),
        total=operations.total + bindparam("more_total"),
        modified_at=_NOW,
    )
)
_IS_CUT = operations.state.in_([RetryOperationState.PREPARING, RetryOperationState.FORWARDING])
_COMPLETE = (
    update(retry_operations)
    .where(_KEY, _IS_CUT, operations.cancel_asked.is_(False))
    .values(
        state=RetryOperationState.COMPLETED,
        skipped=_REST,
        reason=case((operations.total == 0, _NOTHING), else_=operations.reason),
        completed_at=_NOW,
        modified_at=_NOW,
    )
)
_ON_ITS_WAY = (
    update(retry_operations)
    .where(_KEY, operations.state == RetryOperationState.PREPARING)
    .values(state=RetryOperationState.FORWARDING, modified_at=_NOW)
)
_COUNT_FORWARDED = (
    update(retry_operations)
    .where(_KEY)
    .values(forwarded=operations.forwarded + bindparam("number"))
)


def add(tx: Transaction, row: dict[str, object]) -> bool:
    """Add an operation; false if another one has its idempotency key or its id."""
    inserted = tx.execute(
        tx.sql.insert(retry_operations)
        .values(created_at=tx.now, modified_at=tx.now, **row)
        .on_conflict_do_nothing()
        .returning(operations.operation_id)
    )
    if inserted.first() is None:
        return False
    tx.execute(insert(retry_operation_outcomes).values(operation_id=row["operation_id"]))
    return True


def begin_cut(tx: Transaction, operation: RetryOperation) -> None:
    """Begin a cut, if state and floor of the operation are still as they were read.

    Raises ConcurrentChange if not, if it is not open, or if its cancel was asked for: it was paused
    or cancelled between the look and the cut, and must not be cut.
    """
    waiting = operation.state is RetryOperationState.WAITING
    begun = tx.execute(
        _BEGIN_CUT,
        {
            "operation": operation.operation_id,
            "before": operation.state,
            "after": RetryOperationState.PREPARING if waiting else operation.state,
            "from": operation.floor,
            "now": tx.now,
        },
    )
    if operation.state not in OPEN_STATES or begun.rowcount != 1:
        raise ConcurrentChange


def note_cut(
    tx: Transaction, operation: RetryOperation, *, floor: int, skipped: int, claimed: int
) -> None:
    """Move the floor, count the skipped; the standing operation's total is what it has claimed."""
    known = {"operation": operation.operation_id, "from": operation.floor, "to": floor}
    more = {"more_skipped": skipped, "more_batches": int(claimed > 0), "now": tx.now}
    grown = claimed if operation.retry_type is RetryType.BY_POLICY else 0
    tx.execute(_NOTE_CUT, {**known, **more, "more_total": grown})


def rest(tx: Transaction, operation_id: str) -> bool:
    """Let the standing operation wait until something is due; false if it was paused."""
    waits = {"state": RetryOperationState.WAITING, "modified_at": tx.now}
    return tx.execute(_of(operation_id).where(_IS_CUT).values(waits)).rowcount == 1


def complete(tx: Transaction, operation_id: str) -> bool:
    """Complete an operation whose last cut was empty and that has no batch left.

    What is neither forwarded nor failed was skipped: archived, resolved, claimed by another
    operation or failed again before its turn. Returns false if it was paused or is to be cancelled.
    """
    return tx.execute(_COMPLETE, {"operation": operation_id, "now": tx.now}).rowcount == 1


def cancel(tx: Transaction, operation_id: str) -> None:
    """End an operation whose cancel was asked for and that has no batch: the rest is skipped."""
    ended = {
        "state": RetryOperationState.CANCELLED,
        "skipped": _REST,
        "passed_over": False,
        "look_again_at": None,
    }
    change(
        tx, operation_id, ALIVE, {**ended, "next_cut": None, "completed_at": tx.now}, cancelled=True
    )


def change(
    tx: Transaction,
    operation_id: str,
    states: Collection[RetryOperationState],
    values: Mapping[str, object],
    *,
    cancelled: bool = False,
) -> None:
    """Change an operation that is in one of these states, and that nobody has cancelled meanwhile.

    With `cancelled`, one whose cancel was asked for. Raises ConcurrentChange if it is not so any
    more: the caller has looked without a lock, and looks again.
    """
    changed = tx.execute(
        _of(operation_id)
        .where(operations.state.in_(sorted(states)), operations.cancel_asked.is_(cancelled))
        .values(modified_at=tx.now, **values)
    )
    if changed.rowcount != 1:
        raise ConcurrentChange


def put_off(tx: Transaction, operation_id: str, until: datetime | None) -> None:
    """Let the next cut wait until that time; None: it need not wait."""
    tx.execute(_of(operation_id).values(next_cut=until, modified_at=tx.now))


def say_why(tx: Transaction, operation_id: str, reason: str | None) -> None:
    """Write why it sends nothing; None: it does."""
    tx.execute(_of(operation_id).values(reason=short(reason), modified_at=tx.now))


def wait_no_longer(tx: Transaction, operation_id: str, until: datetime) -> bool:
    """Let one that would wait for longer wait until that time; say whether it would have."""
    longer = _of(operation_id).where(operations.not_before > until)
    return tx.execute(longer.values(not_before=until, modified_at=tx.now)).rowcount == 1


def pass_over(tx: Transaction, operation_id: str, reason: str | None, at: datetime | None) -> None:
    """Let one wait of which only held messages are left, until that time or a word (None)."""
    passed = {"passed_over": True, "reason": short(reason), "modified_at": tx.now}
    # `look_again` may have come since the caller looked: then nothing counts as left out.
    held = _of(operation_id).where(operations.left_out > 0)
    tx.execute(held.values(**passed, look_again_at=at))


def count_left_out(tx: Transaction, operation_id: str, number: int) -> None:
    """Count messages that a cut left out."""
    tx.execute(_of(operation_id).values(left_out=operations.left_out + number))


def look_again(tx: Transaction, operation_id: str | None = None) -> int:
    """Let operations that left messages out begin anew at floor 0, or one; return how many."""
    anew = {
        "floor": 0,
        "left_out": 0,
        "passed_over": False,
        "look_again_at": None,
        # The reason was why nothing was left to cut.
        "reason": case((operations.passed_over, None), else_=operations.reason),
        "modified_at": tx.now,
    }
    left = operations.state.in_(sorted(ALIVE)) & (operations.left_out > 0)
    one = true() if operation_id is None else operations.operation_id == operation_id
    return tx.execute(update(retry_operations).where(left, one).values(anew)).rowcount


def go_on_its_way(tx: Transaction, operation_id: str) -> None:
    """Move an operation from Preparing to Forwarding; its first batch does it."""
    tx.execute(_ON_ITS_WAY, {"operation": operation_id, "now": tx.now})


def count_forwarded(tx: Transaction, operation_ids: Iterable[str]) -> None:
    """Count a forwarded message for each id; an id given twice counts two."""
    for operation_id, number in sorted(Counter(operation_ids).items()):
        tx.execute(_COUNT_FORWARDED, {"operation": operation_id, "number": number})


_COUNT_OUTCOMES = (
    update(retry_operation_outcomes)
    .where(retry_operation_outcomes.c.operation_id == bindparam("operation"))
    .values(
        {
            name: retry_operation_outcomes.c[name] + bindparam(f"more_{name}")
            for name in OUTCOME_COLUMNS
        }
    )
)


def count_outcomes(
    tx: Transaction,
    ended: Mapping[tuple[str, RetryOutcome], int],
    late: Iterable[tuple[str, RetryOutcome]] = (),
) -> None:
    """Add how many retries ended, by operation and outcome. An operation may be deleted by now.

    `late` came back after they had ended otherwise: operation, and the outcome that they had.
    """
    more = Counter(ended)
    for key, outcome in late:
        more[key, outcome] -= 1
        more[key, RetryOutcome.CAME_BACK] += 1
    # In order of the operations: two processes that count the same must not deadlock.
    for key in sorted({key for key, _ in more}):
        counts = {f"more_{name}": more[key, RetryOutcome(name)] for name in OUTCOME_COLUMNS}
        tx.execute(_COUNT_OUTCOMES, {"operation": key, **counts})


def count_failed(tx: Transaction, operation_id: str, number: int, reason: str) -> None:
    """Count messages that could not be sent, and keep why the last of them could not."""
    more = {"failed": operations.failed + number, "reason": short(reason)}
    tx.execute(_of(operation_id).values(**more, modified_at=tx.now))


def count_skipped(tx: Transaction, operation_id: str, number: int) -> None:
    """Count messages that were taken out of the operation."""
    tx.execute(_of(operation_id).values(skipped=operations.skipped + number, modified_at=tx.now))


@dataclass(frozen=True, slots=True, kw_only=True)
class Altered:
    """What the retries of an operation are sent without, and what is changed of them."""

    drop_headers: tuple[str, ...] = ()
    patch: str | None = None


def find_altered(tx: Transaction, operation_ids: Collection[str]) -> dict[str, Altered]:
    """Return those of these operations whose retries are not as their messages were."""
    if not operation_ids:
        return {}
    query = select(operations.operation_id, operations.drop_headers, operations.patch).where(
        operations.operation_id.in_(sorted(operation_ids)),
        or_(operations.drop_headers.is_not(None), operations.patch.is_not(None)),
    )
    return {
        row.operation_id: Altered(drop_headers=tuple(row.drop_headers or ()), patch=row.patch)
        for row in tx.execute(query)
    }


def is_patched(tx: Transaction, operation_id: str) -> bool:
    """Say whether an operation changes what it sends."""
    query = select(operations.patch.is_not(None)).where(operations.operation_id == operation_id)
    return bool(tx.execute(query).scalar_one())


def acknowledge(tx: Transaction, operation_ids: Collection[str]) -> None:
    """Note that a person has seen that these, which are over, are over."""
    those = tx.sql.member(operations.operation_id, sorted(operation_ids))
    tx.execute(update(retry_operations).where(those).values(acknowledged_at=tx.now))


def delete_old(tx: Transaction, conditions: Iterable[ColumnElement[bool]], most: int) -> int:
    """Delete those that meet conditions, the oldest first; return how many.

    The ids that they named go with them (foreign key). So may the idempotency key be used again.
    """
    query = select(operations.operation_id).where(*conditions).order_by(operations.completed_at)
    ids = tx.execute(query.limit(most).with_for_update(skip_locked=True)).scalars().all()
    if ids:
        tx.execute(delete(retry_operations).where(tx.sql.member(operations.operation_id, ids)))
    return len(ids)


def _of(operation_id: str) -> Update:
    return update(retry_operations).where(operations.operation_id == operation_id)


def add_named(
    tx: Transaction, operation_id: str, unique_ids: Iterable[str], numbers: Mapping[str, int]
) -> None:
    """Add the ids in the order given, each once; `numbers` has those of messages that exist."""
    rows = [
        {
            "operation_id": operation_id,
            "position": position,
            "unique_message_id": unique_id,
            "number": numbers.get(unique_id),
        }
        for position, unique_id in enumerate(dict.fromkeys(unique_ids), start=1)
    ]
    if rows:
        tx.execute(retry_operation_messages.insert(), rows)


def note_skipped(tx: Transaction, operation_id: str, skipped: Mapping[str, str]) -> None:
    """Store why each of these ids was skipped: of streams each has a reason of its own."""
    by_reason: dict[str, list[str]] = {}
    for unique_id, reason in skipped.items():
        by_reason.setdefault(reason, []).append(unique_id)
    rows = [
        {"operation": operation_id, "ids": ids, "reason": reason}
        for reason, ids in sorted(by_reason.items())
    ]
    if rows:
        tx.execute(_note_skipped(tx.sql), rows)


@cache
def _note_skipped(sql: SqlDialect) -> Update:
    """Make one statement that is sent once for each reason: there may be as many as ids."""
    return (
        update(retry_operation_messages)
        .where(
            named.operation_id == bindparam("operation"),
            sql.listed(named.unique_message_id, "ids"),
        )
        .values(skipped_because=bindparam("reason"))
    )


def note_dropped(tx: Transaction, operation_id: str, numbers: Sequence[int], reason: str) -> None:
    """Store why these messages were dropped after their claim; an earlier reason stays."""
    if numbers:
        tx.execute(
            update(retry_operation_messages)
            .where(
                named.operation_id == operation_id,
                tx.sql.member(named.number, numbers),
                named.skipped_because.is_(None),
            )
            .values(skipped_because=reason)
        )


def add_canary(tx: Transaction, operation_id: str, canary: Canary) -> None:
    """Add the canary of a new operation."""
    row = {
        "operation_id": operation_id,
        "size": canary.size,
        "wait_ms": round(canary.wait.total_seconds() * 1000),
        "most_back": canary.most_back,
        "state": CanaryState.SENDING,
        "retries": [],
    }
    tx.execute(retry_operation_canaries.insert(), row)


def remember_retries(tx: Transaction, operation_id: str, numbers: Sequence[int]) -> None:
    """Keep the retry ids under which these messages, just claimed, are sent.

    A claim ends when its message comes back, and then only its retry id says which retry failed.
    """
    query = select(claims.number, claims.retry_id).where(tx.sql.member(claims.number, numbers))
    sent = [[row.number, row.retry_id] for row in tx.execute(query.order_by(claims.number))]
    known = [*_retries(tx, operation_id), *sent]
    tx.execute(_canary_of(operation_id).values(retries=known))


def move_canary(
    tx: Transaction,
    operation_id: str,
    before: CanaryState,
    after: CanaryState,
    came_back: int | None = None,
) -> None:
    """Move a canary from one state to the next. Raises ConcurrentChange if it is in another."""
    known = {"state": after, "came_back": came_back}
    if (
        tx.execute(_canary_of(operation_id).where(canaries.state == before).values(known)).rowcount
        != 1
    ):
        raise ConcurrentChange


def let_canary_wait(tx: Transaction, operation_id: str, until: datetime) -> None:
    """Let a canary that is sent wait. Raises ConcurrentChange if it is in another state."""
    move_canary(tx, operation_id, CanaryState.SENDING, CanaryState.WAITING)
    tx.execute(_canary_of(operation_id).values(waited_until=until))


def _retries(tx: Transaction, operation_id: str) -> Sequence[tuple[int, str]]:
    query = select(canaries.retries).where(canaries.operation_id == operation_id)
    return [(int(number), str(retry)) for number, retry in tx.execute(query).scalar_one()]


def _canary_of(operation_id: str) -> Update:
    return update(retry_operation_canaries).where(canaries.operation_id == operation_id)
