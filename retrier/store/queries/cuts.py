"""Cuts: the next messages of an operation's frozen selection, from its floor on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, Row, Select, bindparam, exists, select, update

from retrier.domain.failed_message import FailedMessageStatus
from retrier.domain.retry_batch import BATCH_BYTES, BATCH_SIZE
from retrier.domain.retry_operation import RetryOperation
from retrier.domain.selection import Selection
from retrier.store import event_log, selections
from retrier.store.event_log import Event
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
        messages.status,
        messages.failure_seq,
        messages.body_size,
        claims.retry_id,
    )
    .outerjoin_from(
        retry_operation_messages,
        failed_messages,
        messages.unique_message_id == named.unique_message_id,
    )
    .outerjoin(failed_message_retries, claims.unique_message_id == named.unique_message_id)
    .where(named.operation_id == bindparam("operation"))
    .order_by(named.position)
)
_CUT_NAMED = _NAMED.where(named.position > bindparam("floor")).limit(BATCH_SIZE)

SELECTIONS = 32
"""So many statements are kept: to make one takes longer than to carry it out."""
_CHANGED = "it changed while it was being claimed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """What one look at the selection found. `skipped` gives the reason for each named id."""

    eligible: tuple[str, ...]
    skipped: dict[str, str]
    floor: int

    @property
    def is_empty(self) -> bool:
        """Whether the selection is at its end."""
        return not self.eligible and not self.skipped


def cut(conn: Connection, operation: RetryOperation) -> Cut:
    """Look at the next messages of the selection, at most 1000 and 64 MiB of bodies."""
    if operation.selection.ids is not None:
        return _cut_named(conn, operation)
    return _cut_selected(conn, operation)


@lru_cache(maxsize=SELECTIONS)
def next_selected(selection: Selection) -> Select[Any]:
    """Return the look at the next messages of a selection without ids, from `floor` on.

    Their rows are an id, a place in the selection, and the size of the body.
    """
    return (
        select(messages.unique_message_id, messages.failure_seq.label("place"), messages.body_size)
        .where(
            messages.status == FailedMessageStatus.UNRESOLVED,
            messages.failure_seq > bindparam("floor"),
            messages.failure_seq <= bindparam("cut_off"),
            ~exists().where(claims.unique_message_id == messages.unique_message_id),
            *selections.where(selection),
        )
        .order_by(messages.failure_seq)
        .limit(BATCH_SIZE)
    )


def look_again(
    conn: Connection, operation: RetryOperation, cut: Cut, claimed: Sequence[str]
) -> Cut:
    """Add why named ids that looked eligible were not claimed: they changed before the locks."""
    left = set(cut.eligible).difference(claimed)
    if operation.selection.ids is None or not left:
        return cut
    query = _NAMED.where(named.unique_message_id.in_(sorted(left)))
    reasons = {
        row.unique_message_id: _why_not(row, operation.cut_off) or _CHANGED
        for row in conn.execute(query, {"operation": operation.operation_id})
    }
    return replace(cut, skipped={**cut.skipped, **reasons})


def note_skipped(
    conn: Connection, operation: RetryOperation, reasons: Mapping[str, str], now: datetime
) -> None:
    """Keep why each named id was skipped, with the id and as events."""
    for reason in sorted(set(reasons.values())):
        ids = [unique_id for unique_id, why in reasons.items() if why == reason]
        conn.execute(
            update(retry_operation_messages)
            .where(
                named.operation_id == operation.operation_id,
                named.unique_message_id.in_(ids),
            )
            .values(skipped_because=reason)
        )
    skipped = [
        Event(
            kind="retry_skipped",
            text=f"{unique_id}: not retried: {reason}",
            who=operation.requested_by,
            unique_message_id=unique_id[:36],
            operation_id=operation.operation_id,
        )
        for unique_id, reason in reasons.items()
    ]
    event_log.append(conn, now, skipped)


def _cut_selected(conn: Connection, operation: RetryOperation) -> Cut:
    known = {"floor": operation.floor, "cut_off": operation.cut_off}
    rows = _within_bytes(conn.execute(next_selected(operation.selection), known).all())
    return Cut(
        eligible=tuple(row.unique_message_id for row in rows),
        skipped={},
        floor=rows[-1].place if rows else operation.floor,
    )


def _cut_named(conn: Connection, operation: RetryOperation) -> Cut:
    known = {"operation": operation.operation_id, "floor": operation.floor}
    rows = _within_bytes(conn.execute(_CUT_NAMED, known).all())
    reasons = {row.unique_message_id: _why_not(row, operation.cut_off) for row in rows}
    return Cut(
        eligible=tuple(unique_id for unique_id, why in reasons.items() if why is None),
        skipped={unique_id: why for unique_id, why in reasons.items() if why is not None},
        floor=rows[-1].place if rows else operation.floor,
    )


def _why_not(row: Row[*tuple[Any, ...]], cut_off: int) -> str | None:
    if row.status is None:
        return "no failed message has this id"
    if row.status == FailedMessageStatus.RETRY_ISSUED:
        return "its retry was issued already and has neither succeeded nor failed yet"
    if row.retry_id is not None:
        return "another retry has claimed it already"
    if row.status != FailedMessageStatus.UNRESOLVED:
        return f"it is {row.status}"
    if row.failure_seq > cut_off:
        return "it failed again since the retry was asked for"
    return None


def _within_bytes(rows: Sequence[Row[*tuple[Any, ...]]]) -> Sequence[Row[*tuple[Any, ...]]]:
    total = 0
    for place, row in enumerate(rows):
        total += row.body_size or 0
        if total > BATCH_BYTES and place > 0:
            return rows[:place]
    return rows
