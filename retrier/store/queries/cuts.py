"""Cuts: the next messages of an operation's frozen selection, behind its floor."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from sqlalchemy import Select, bindparam, exists, select

from retrier.domain.failed_message import FailedMessageStatus
from retrier.domain.retry_batch import BATCH_BYTES, BATCH_SIZE
from retrier.domain.retry_operation import RetryOperation
from retrier.domain.selection import Selection
from retrier.store.engine.transaction import StoredRow, Transaction
from retrier.store.queries.selections import conditions
from retrier.store.schema import (
    failed_message_retries,
    failed_messages,
    retry_operation_messages,
)

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
UNKNOWN_ID = "no failed message has this id"
ISSUED = (
    "its retry was issued already and has neither succeeded nor failed yet: `retrier pending retry` "
    "or `retrier pending resolve`"
)
CLAIMED = "another retry has claimed it already"
_CHANGED = "it changed while it was being claimed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """What one look at the selection found.

    `eligible` maps numbers to failure numbers, `skipped` named ids to the reasons against a retry.
    `floor` is the failure number, or the position of the named id, up to which it looked.
    """

    eligible: Mapping[int, int]
    floor: int
    skipped: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether the selection has no more messages."""
        return not self.eligible and not self.skipped


def look(tx: Transaction, operation: RetryOperation) -> Cut:
    """Find the next messages of the selection: at most 1000, with 64 MiB of bodies."""
    if operation.selection.ids is not None:
        return _look_at_named(tx, operation)
    known = {"floor": operation.floor, "cut_off": operation.cut_off}
    rows = _within_bytes(tx.execute(_next_selected(operation.selection), known).all())
    return Cut(
        eligible={row.number: row.failure_seq for row in rows},
        floor=rows[-1].failure_seq if rows else operation.floor,
    )


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
        .where(
            messages.status == FailedMessageStatus.UNRESOLVED,
            messages.failure_seq > bindparam("floor"),
            messages.failure_seq <= bindparam("cut_off"),
            ~exists().where(claims.number == messages.number),
            *conditions(selection),
        )
        .order_by(messages.failure_seq)
        .limit(BATCH_SIZE)
    )


def _look_at_named(tx: Transaction, operation: RetryOperation) -> Cut:
    known = {"operation": operation.operation_id, "floor": operation.floor}
    rows = _within_bytes(tx.execute(_CUT_NAMED, known).all())
    judged = [(row, why_not(row, operation.cut_off)) for row in rows]
    return Cut(
        eligible={row.number: row.failure_seq for row, why in judged if why is None},
        skipped={row.unique_message_id: why for row, why in judged if why is not None},
        floor=rows[-1].place if rows else operation.floor,
    )


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


def _within_bytes(rows: Sequence[StoredRow]) -> Sequence[StoredRow]:
    total = 0
    for place, row in enumerate(rows):
        total += row.body_size or 0
        if total > BATCH_BYTES and place > 0:
            return rows[:place]
    return rows
