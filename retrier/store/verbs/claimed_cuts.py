"""Claimed cuts: the next messages of a selection, locked, looked at again and claimed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any

from sqlalchemy import (
    CTE,
    Connection,
    Select,
    String,
    and_,
    any_,
    bindparam,
    cast,
    func,
    or_,
    select,
)

from retrier.domain.failed_message import FailedMessageStatus
from retrier.domain.retry_batch import BATCH_BYTES
from retrier.domain.retry_operation import RetryOperation
from retrier.domain.selection import Selection
from retrier.store import claims as claim_rows
from retrier.store import cuts
from retrier.store.cuts import Cut
from retrier.store.database import Database
from retrier.store.schema import failed_message_retries, failed_messages
from retrier.store.sql_dialect import SqlDialect

messages = failed_messages.c
claims = failed_message_retries.c

_IS_ELIGIBLE = and_(
    messages.status == FailedMessageStatus.UNRESOLVED,
    messages.failure_seq <= bindparam("cut_off"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedCut:
    """What a batch got: how many claims, where the selection goes on, and who was left out why."""

    claimed: int
    floor: int
    is_empty: bool
    skipped: Mapping[str, str] = field(default_factory=dict)


def take_next(
    db: Database, conn: Connection, batch_id: str, operation: RetryOperation
) -> ClaimedCut:
    """Claim the next messages of the selection, at most 1000 and 64 MiB of bodies, for a batch.

    What changed between the look and the locks is not claimed, nor is what somebody else has.
    """
    if operation.selection.ids is None and db.sql.writes_in_queries:
        return _take_at_once(db.sql, conn, batch_id, operation)
    cut = cuts.cut(conn, operation)
    eligible = _lock_eligible(db, conn, cut, operation.cut_off)
    claimed = claim_rows.take(db, conn, batch_id, operation.operation_id, eligible)
    cut = cuts.look_again(conn, operation, cut, claimed)
    return ClaimedCut(
        claimed=len(claimed), floor=cut.floor, is_empty=cut.is_empty, skipped=cut.skipped
    )


def _take_at_once(
    sql: SqlDialect, conn: Connection, batch_id: str, operation: RetryOperation
) -> ClaimedCut:
    known = {
        "floor": operation.floor,
        "cut_off": operation.cut_off,
        "batch": batch_id,
        "operation": operation.operation_id,
    }
    found = conn.execute(_take_selected(sql, operation.selection), known).one()
    floor = operation.floor if found.floor is None else found.floor
    return ClaimedCut(claimed=found.claimed, floor=floor, is_empty=found.floor is None)


@lru_cache(maxsize=cuts.SELECTIONS)
def _take_selected(sql: SqlDialect, selection: Selection) -> Select[Any]:
    """Make one statement of look, locks and claims: a thousand ids need not travel three times.

    The locks are what makes it safe: a row that somebody changes is waited for, and looked at
    once more as it is then. A claim that the look could not see yet wins over ours.
    """
    looked = _within_bytes(cuts.next_selected(selection))
    # An array, because it is found by the index of ids then, whatever the statistics say.
    ids = func.array(select(looked.c.unique_message_id).scalar_subquery())
    locked = (
        select(messages.unique_message_id)
        .where(messages.unique_message_id == any_(ids), _IS_ELIGIBLE)
        .order_by(messages.unique_message_id)
        .with_for_update()
        .cte("locked")
    )
    rows = select(
        locked.c.unique_message_id,
        cast(func.gen_random_uuid(), String),
        bindparam("batch", type_=String),
        bindparam("operation", type_=String),
    )
    into = ["unique_message_id", "retry_id", "batch_id", "operation_id"]
    insert = sql.insert(failed_message_retries).from_select(into, rows)
    taken = insert.on_conflict_do_nothing().returning(claims.batch_id).cte("taken")
    return select(
        select(func.max(looked.c.place)).scalar_subquery().label("floor"),
        select(func.count()).select_from(taken).scalar_subquery().label("claimed"),
    )


def _within_bytes(looked: Select[Any]) -> CTE:
    """Cut off what goes beyond 64 MiB of bodies, but for the first: as `cuts` does with rows."""
    found = looked.cte("found")
    place = found.c.place
    measured = select(
        found.c.unique_message_id,
        found.c.place,
        func.row_number().over(order_by=place).label("number"),
        func.sum(func.coalesce(found.c.body_size, 0)).over(order_by=place).label("total"),
    ).cte("measured")
    fits = or_(measured.c.number == 1, measured.c.total <= BATCH_BYTES)
    return select(measured.c.unique_message_id, measured.c.place).where(fits).cte("looked")


def _lock_eligible(db: Database, conn: Connection, cut: Cut, cut_off: int) -> Sequence[str]:
    """Lock the rows in id order and look again: one may have failed again since it was read."""
    if not cut.eligible:
        return []
    known = {"ids": cut.eligible, "cut_off": cut_off}
    eligible = conn.execute(_lock_looked_at(db.sql), known).scalar_one()
    if eligible == len(cut.eligible):
        return sorted(cut.eligible)
    # Asked for only then: nearly always all of a thousand rows would come back as they went.
    return conn.execute(_eligible(db.sql), known).scalars().all()


@cache
def _lock_looked_at(sql: SqlDialect) -> Select[int]:
    # Found by id alone: with the rest as a condition the server takes the index of all that is
    # unresolved, and looks through a million for a thousand.
    locked = (
        select(_IS_ELIGIBLE.label("eligible"))
        .where(sql.listed(messages.unique_message_id))
        .order_by(messages.unique_message_id)
        .with_for_update()
        .subquery()
    )
    return select(func.count().filter(locked.c.eligible)).select_from(locked)


@cache
def _eligible(sql: SqlDialect) -> Select[str]:
    return (
        select(messages.unique_message_id)
        .where(sql.listed(messages.unique_message_id), _IS_ELIGIBLE)
        .order_by(messages.unique_message_id)
    )
