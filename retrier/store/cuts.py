"""Cuts: the next messages of an operation's frozen selection, behind its floor."""

from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import lru_cache
from typing import Any

from sqlalchemy import ColumnElement, Select, bindparam, exists, func, literal_column, select

from retrier.domain.access import NOT_YOURS
from retrier.domain.breakers import BreakerKey
from retrier.domain.failed_message import FailedMessageStatus
from retrier.domain.retry_batch import BATCH_BYTES, BATCH_SIZE, room_for
from retrier.domain.retry_operation import RetryOperation, RetryType
from retrier.domain.selection import Selection
from retrier.domain.values import dataclass
from retrier.store.engine.transaction import StoredRow, Transaction
from retrier.store.schedule import IS_DUE, LeftOut, find_in_turn, free, is_any_held
from retrier.store.schema import (
    failed_message_retries,
    failed_messages,
    retry_operation_messages,
)
from retrier.store.selections import conditions, find_foreign, may_be_retried

messages = failed_messages.c
claims = failed_message_retries.c
named = retry_operation_messages.c


_NAMED = (
    select(
        named.unique_message_id,
        named.position.label("place"),
        messages.number,
        messages.status,
        messages.failure_seq,
        messages.body_size,
        claims.retry_id,
    )
    .outerjoin_from(retry_operation_messages, failed_messages, messages.number == named.number)
    .outerjoin(failed_message_retries, claims.number == named.number)
    .where(named.operation_id == bindparam("operation"))
    .order_by(named.position)
)
_CUT_NAMED = _NAMED.where(named.position > bindparam("floor")).limit(BATCH_SIZE)

_SELECTIONS = 32
"""Statements kept in a cache: making one takes longer than executing it."""
LOOKED_AT_EACH = 2 * BATCH_SIZE
"""Messages of which each is looked at, before the heads of all streams are."""
UNKNOWN_ID = "no failed message has this id"
ISSUED = (
    "its retry was issued already and has neither succeeded nor failed yet: `retrier pending retry` "
    "or `retrier pending resolve`"
)
CLAIMED = "another retry has claimed it already"
# In the words of the index of messages by cause: with a parameter SQLite would not use it.
IS_UNRESOLVED: ColumnElement[bool] = literal_column("failed_messages.status = 'unresolved'")
_CHANGED = "it changed while it was being claimed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """What one look at the selection found.

    `eligible` maps numbers to failure numbers, `skipped` named ids to the reasons against a retry.
    `floor` is the failure number, or the position of the named id, up to which it looked.
    `left_out` counts the messages up to there that something else holds.
    """

    eligible: Mapping[int, int]
    floor: int
    skipped: Mapping[str, str] = field(default_factory=dict)
    left_out: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether the selection has no more messages."""
        return not self.eligible and not self.skipped


def free_messages(tx: Transaction, operation: RetryOperation) -> Iterator[ColumnElement[bool]]:
    """Yield the conditions on messages that a cut of this operation may take.

    With the parameters `floor` and `cut_off`. What is due by policy has neither, but its time.
    """
    if operation.retry_type is not RetryType.BY_POLICY:
        yield from _free(operation.selection)
        return
    yield from free()
    yield messages.retry_at <= tx.now


def free_now(
    tx: Transaction, operation: RetryOperation
) -> tuple[Sequence[ColumnElement[bool]], Mapping[str, object]]:
    """Return the conditions on messages that the next cut of this operation may take, whatever holds.

    For one that does not name them by id: with the parameters.
    """
    if operation.retry_type is RetryType.BY_POLICY:
        return [IS_UNRESOLVED, *free(), IS_DUE], {"now": tx.now}
    known = {"floor": operation.floor, "cut_off": operation.cut_off}
    return [IS_UNRESOLVED, *_free(operation.selection)], known


def look(
    tx: Transaction,
    operation: RetryOperation,
    left_out: LeftOut | None = None,
    coming_back: Sequence[BreakerKey] = (),
) -> Cut:
    """Find the next messages of the selection: at most 1000, with 64 MiB of bodies.

    Fewer if the operation's limit, rate or canary allows no more. Messages named by id are not left
    out but skipped, and only by what says why (`skip`): else a person meant these. What is due by
    policy and goes where most comes back (`coming_back`) leaves half of the room to others.
    """
    most = room_for(operation)
    if most == 0:
        return Cut(eligible={}, floor=operation.floor)
    if operation.retry_type is RetryType.BY_POLICY:
        return _look_at_due(tx, operation, find_in_turn(tx, most, left_out, coming_back), left_out)
    if operation.selection.ids is not None:
        return _look_at_named(tx, operation, most, left_out)
    rows = _within_bytes(_find_selected(tx, operation, most, left_out))
    floor = rows[-1].failure_seq if rows else operation.floor
    cut = Cut(eligible={row.number: row.failure_seq for row in rows}, floor=floor)
    return cut if left_out is None else _count_left_out(tx, operation, cut)


def _find_selected(
    tx: Transaction, operation: RetryOperation, most: int, left_out: LeftOut | None
) -> Sequence[StoredRow]:
    """Find the next messages of a selection that nothing holds, at most so many.

    First among the next few, each of which is looked at. Where streams hold nearly all of these
    they hold more behind them, perhaps very many: then the head of each stream is looked at.
    """
    known = {"floor": operation.floor, "cut_off": operation.cut_off, "most": most}
    query = _next_selected(operation.selection)
    if left_out is None:
        return tx.execute(query, known).all()
    free = query.where(~left_out.condition)
    if left_out.by_heads is None:
        return tx.execute(free, known).all()
    behind = query.with_only_columns(messages.failure_seq).offset(LOOKED_AT_EACH)
    last = tx.execute(behind, {**known, "most": 1}).scalar_one_or_none()
    if last is None:
        return tx.execute(free, known).all()
    found = tx.execute(free, {**known, "cut_off": last}).all()
    if len(found) == most:
        return found
    held = left_out.by_heads(tx)
    return tx.execute(free if held is None else query.where(~held), known).all()


def _look_at_due(
    tx: Transaction,
    operation: RetryOperation,
    due: Sequence[Any],
    left_out: LeftOut | None,
) -> Cut:
    """Take what is due. There is no floor: a claim that is dropped is due again."""
    rows = _within_bytes(due)
    held = not rows and left_out is not None and is_any_held(tx, left_out.condition)
    return Cut(
        eligible={row.number: row.failure_seq for row in rows},
        floor=operation.floor,
        left_out=int(held),
    )


def _count_left_out(tx: Transaction, operation: RetryOperation, cut: Cut) -> Cut:
    """Count what the cut passed over; an empty cut has passed over all up to the cut-off.

    Everything free that it did not take, and not what is held: what held a message at the look may
    have let go of it since, and without a count its operation would be completed without it.
    """
    floor = cut.floor if cut.eligible else operation.cut_off
    query = select(func.count()).select_from(failed_messages).where(*_free(operation.selection))
    if cut.eligible:
        query = query.where(~tx.sql.member(messages.number, sorted(cut.eligible)))
    known = {"floor": operation.floor, "cut_off": floor}
    return replace(cut, floor=floor, left_out=int(tx.execute(query, known).scalar_one()))


def look_again(tx: Transaction, operation: RetryOperation, cut: Cut, claimed: Sequence[int]) -> Cut:
    """Add the reasons for eligible named ids that were not claimed: another retry was faster."""
    left = set(cut.eligible).difference(claimed)
    if operation.selection.ids is None or not left:
        return cut
    query = _NAMED.where(tx.sql.member(named.number, sorted(left)))
    reasons = {
        row.unique_message_id: why_not(row, operation.cut_off) or _CHANGED
        for row in tx.execute(query, {"operation": operation.operation_id})
    }
    return replace(cut, skipped={**cut.skipped, **reasons})


@lru_cache(maxsize=_SELECTIONS)
def _next_selected(selection: Selection) -> Select[Any]:
    return (
        select(messages.number, messages.failure_seq, messages.body_size)
        .where(*_free(selection))
        .order_by(messages.failure_seq)
        .limit(bindparam("most"))
    )


def _free(selection: Selection) -> Iterator[ColumnElement[bool]]:
    """Yield the conditions on messages that a cut of this selection may take."""
    yield from may_be_retried(selection)
    yield messages.failure_seq > bindparam("floor")
    yield messages.failure_seq <= bindparam("cut_off")
    yield ~exists().where(claims.number == messages.number)
    yield from conditions(selection)


def _look_at_named(
    tx: Transaction, operation: RetryOperation, most: int, left_out: LeftOut | None
) -> Cut:
    known = {"operation": operation.operation_id, "floor": operation.floor}
    rows = _within_bytes(tx.execute(_CUT_NAMED, known).all())
    held = _skipped(tx, rows, left_out)
    numbers = [row.number for row in rows if row.number is not None]
    foreign = find_foreign(tx, operation.selection.within, numbers)
    reasons = [
        why_not(row, operation.cut_off)
        or (NOT_YOURS if row.number in foreign else held.get(row.number))
        for row in rows
    ]
    judged = _up_to(list(zip(rows, reasons, strict=True)), most)
    return Cut(
        eligible={row.number: row.failure_seq for row, why in judged if why is None},
        skipped={row.unique_message_id: why for row, why in judged if why is not None},
        floor=judged[-1][0].place if judged else operation.floor,
    )


def _skipped(
    tx: Transaction, rows: Sequence[StoredRow], left_out: LeftOut | None
) -> Mapping[int, str]:
    if left_out is None:
        return {}
    numbers = [row.number for row in rows if row.number is not None]
    parts = left_out.parts or (left_out,)
    return ChainMap(*(dict(part.skip(tx, numbers)) for part in parts if part.skip is not None))


Judged = Sequence[tuple[StoredRow, str | None]]


def _up_to(judged: Judged, most: int) -> Judged:
    """Return the rows up to the last that may be taken: those that are skipped take no room."""
    eligible = [place for place, (_, why) in enumerate(judged) if why is None]
    return judged if len(eligible) <= most else judged[: eligible[most]]


def why_not(row: StoredRow, cut_off: int) -> str | None:
    """Return why a named message may not be retried; None if it may.

    `row` has the columns number, status, failure_seq and retry_id; all None of an unknown id.
    """
    if row.status is None:
        return UNKNOWN_ID
    if row.status == FailedMessageStatus.RETRY_ISSUED:
        return ISSUED
    if row.retry_id is not None:
        return CLAIMED
    if row.status != FailedMessageStatus.UNRESOLVED:
        return f"it is {row.status}"
    if row.failure_seq > cut_off:
        return "it failed again since the retry was asked for"
    return None


def _within_bytes(rows: Sequence[Any]) -> Sequence[Any]:
    total = 0
    for place, row in enumerate(rows):
        total += row.body_size or 0
        if total > BATCH_BYTES and place > 0:
            return rows[:place]
    return rows
