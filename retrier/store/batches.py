"""Retry batches (`retry_batches`): added, moved by compare-and-set, shown, and which one is next.

With them the pointer (`retry_batch_now_forwarding`) at the one batch that is in Forwarding, and
staging ids (`staging_ids`), committed before anything is sent under them (decision 0020).
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Select,
    Update,
    and_,
    bindparam,
    case,
    delete,
    exists,
    func,
    or_,
    select,
    update,
)

from retrier.domain.identity import canonical, is_guid
from retrier.domain.retry_batch import NEXT, RetryBatch, RetryBatchStatus
from retrier.domain.values import dataclass
from retrier.store.breaker_lists import (
    ANY_NOT_CLOSED,
)
from retrier.store.engine.database import reading
from retrier.store.engine.sql_dialect import SqlDialect
from retrier.store.engine.transaction import Transaction
from retrier.store.message_lists import ShownClaim, shown_claims
from retrier.store.schema import (
    failed_message_retries,
    failed_messages,
    retry_batch_now_forwarding,
    retry_batches,
    retry_operations,
    staging_ids,
)

batches = retry_batches.c
made = staging_ids.c
claims = failed_message_retries.c


# Made once: SQLAlchemy takes longer to make a statement than to execute it.
_ADD = retry_batches.insert()
_BLANK: Mapping[str, object] = dict.fromkeys(batches.keys())
_DELETE = delete(retry_batches).where(batches.batch_id == bindparam("batch"))


def add(tx: Transaction, row: dict[str, object]) -> RetryBatch:
    """Add a batch, in Marking unless the row says otherwise; return it."""
    written = {
        "status": RetryBatchStatus.MARKING,
        "initial_size": 0,
        "stage_attempts": 0,
        "created_at": tx.now,
        "modified_at": tx.now,
        **row,
    }
    tx.execute(_ADD, written)
    return batch_from_row({**_BLANK, **written})


def move(tx: Transaction, batch_id: str, to: RetryBatchStatus, **columns: object) -> bool:
    """Move a batch if it is in the status before `to`; return whether this call moved it."""
    source = next(status for status, following in NEXT.items() if following is to)
    written = {"status": to, "modified_at": tx.now, **columns}
    moved = _move(tuple(sorted(written)))
    known = {"moved": batch_id, "source": source, **written}
    return tx.execute(moved, known).rowcount == 1


def resize(tx: Transaction, batch_id: str, size: int) -> None:
    """Store how many claims a batch in Marking got."""
    tx.execute(
        update(retry_batches)
        .where(batches.batch_id == batch_id)
        .values(initial_size=size, modified_at=tx.now)
    )


def back_off(tx: Transaction, batch_id: str, wait: timedelta, reason: str) -> None:
    """Make a batch in Staging wait, and store the reason."""
    tx.execute(
        update(retry_batches)
        .where(batches.batch_id == batch_id, batches.status == RetryBatchStatus.STAGING)
        .values(not_before=tx.now + wait, reason=reason, modified_at=tx.now)
    )


def remove(tx: Transaction, batch_id: str) -> None:
    """Delete a batch; the pointer must not name it any more (foreign key)."""
    tx.execute(_DELETE, {"batch": batch_id})


@cache
def _move(columns: Sequence[str]) -> Update:
    return (
        update(retry_batches)
        .where(batches.batch_id == bindparam("moved"), batches.status == bindparam("source"))
        .values({batches[name]: bindparam(name, type_=batches[name].type) for name in columns})
    )


_POINT_AT = retry_batch_now_forwarding.insert().values(id=1, batch_id=bindparam("batch"))
_CLEAR = delete(retry_batch_now_forwarding).where(
    retry_batch_now_forwarding.c.batch_id == bindparam("batch")
)


def point_at(tx: Transaction, batch_id: str) -> None:
    """Point at the batch. Raises IntegrityError if the pointer is set: only one row may exist."""
    tx.execute(_POINT_AT, {"batch": batch_id})


def clear_pointer(tx: Transaction, batch_id: str) -> None:
    """Delete the pointer if it names this batch."""
    tx.execute(_CLEAR, {"batch": batch_id})


def add_staging_ids(tx: Transaction, ids: Sequence[str]) -> None:
    """Store these ids; one that exists gets a new `made_at`, so that it is kept longer."""
    new = tx.sql.insert(staging_ids)
    tx.execute(
        new.on_conflict_do_update(
            index_elements=["staging_id"], set_={"made_at": new.excluded["made_at"]}
        ),
        [{"staging_id": staging_id, "made_at": tx.now} for staging_id in ids],
    )


def find_staging_ids(tx: Transaction, ids: Collection[str]) -> frozenset[str]:
    """Return those of these ids that are stored."""
    if not ids:
        return frozenset()
    wanted = tx.sql.member(made.staging_id, sorted(set(ids)))
    return frozenset(tx.execute(select(made.staging_id).where(wanted)).scalars())


def sweep_staging_ids(tx: Transaction, before: datetime, at_once: int) -> int:
    """Delete ids from before that, at most `at_once`; return how many. The ids of existing batches stay."""
    alive = select(retry_batches.c.staging_id).where(retry_batches.c.staging_id == made.staging_id)
    oldest = select(made.staging_id).where(made.made_at < before, ~alive.exists())
    swept = delete(staging_ids).where(
        made.staging_id.in_(oldest.order_by(made.made_at).limit(at_once))
    )
    return tx.execute(swept).rowcount


SHOWN_CLAIMS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCount:
    """A batch and the numbers of its claims: all, recorded, and in doubt (stamped, unrecorded)."""

    batch: RetryBatch
    claims: int
    forwarded: int
    in_doubt: int
    is_now_forwarding: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchDetails:
    """A batch and its claims in doubt: perhaps sent, not recorded; at most SHOWN_CLAIMS."""

    counted: BatchCount
    in_doubt: tuple[ShownClaim, ...]


@reading
def list_batches(tx: Transaction) -> tuple[BatchCount, ...]:
    """Return every existing batch, oldest first. Raises DatabaseUnavailable."""
    return tuple(_counts(tx, select(retry_batches)))


@reading
def find_batch(tx: Transaction, batch_id: str) -> BatchDetails | None:
    """Return the batch with that id, or None if there is none. Raises DatabaseUnavailable."""
    if not is_guid(batch_id):
        return None
    found = _counts(tx, select(retry_batches).where(batches.batch_id == canonical(batch_id)))
    if not found:
        return None
    query = (
        shown_claims()
        .where(claims.batch_id == canonical(batch_id), _is_in_doubt())
        .order_by(claims.sending_since, failed_messages.c.unique_message_id)
        .limit(SHOWN_CLAIMS)
    )
    rows = tx.execute(query).mappings()
    return BatchDetails(counted=found[0], in_doubt=tuple(ShownClaim(**row) for row in rows))


def batch_from_row(row: Mapping[str, Any]) -> RetryBatch:
    """Return a row of retry_batches as a RetryBatch."""
    values = {column.name: row[column.name] for column in batches}
    return RetryBatch(**{**values, "status": RetryBatchStatus(row["status"])})


def _counts(tx: Transaction, query: Select[Any]) -> list[BatchCount]:
    counted = (
        query.add_columns(
            func.count(claims.number).label("claims"),
            _count_where(claims.forwarded_at.is_not(None)).label("forwarded"),
            _count_where(_is_in_doubt()).label("in_doubt"),
            retry_batch_now_forwarding.c.id.is_not(None).label("is_now_forwarding"),
        )
        .outerjoin(failed_message_retries, claims.batch_id == retry_batches.c.batch_id)
        .outerjoin(retry_batch_now_forwarding)
        # All columns, not the key alone: a view of the table has no key (`narrowing`).
        .group_by(*query.selected_columns, retry_batch_now_forwarding.c.id)
        .order_by(retry_batches.c.created_at, retry_batches.c.batch_id)
    )
    return [_batch_count(dict(row)) for row in tx.execute(counted).mappings()]


def _count_where(condition: ColumnElement[bool]) -> ColumnElement[int]:
    return func.count(case((condition, 1)))


def _is_in_doubt() -> ColumnElement[bool]:
    return and_(claims.sending_since.is_not(None), claims.forwarded_at.is_(None))


def _batch_count(row: Mapping[str, Any]) -> BatchCount:
    return BatchCount(
        batch=batch_from_row(row),
        claims=row["claims"],
        forwarded=row["forwarded"],
        in_doubt=row["in_doubt"],
        is_now_forwarding=bool(row["is_now_forwarding"]),
    )


# Made once: SQLAlchemy takes longer to make a statement than to execute it.
_ANY_STAGING = select(batches.batch_id).where(batches.status == RetryBatchStatus.STAGING).limit(1)


def is_due(now: ColumnElement[datetime] | datetime) -> ColumnElement[bool]:
    """Return the condition that a batch need not wait any longer at the time `now`.

    If `modified_at` is in the future, the database's clock was set back: without that condition
    the batch would wait that much longer, and every other batch behind it.
    """
    return or_(batches.not_before.is_(None), batches.not_before <= now, batches.modified_at > now)


@dataclass(frozen=True, slots=True, kw_only=True)
class NextBatch:
    """The batch that is to be moved next, and whether its operation is to be cancelled.

    `may_hold`: there is a breaker that is not closed.
    """

    batch: RetryBatch
    cancel_asked: bool
    may_hold: bool


def find_most_advanced(tx: Transaction) -> NextBatch | None:
    """Return the batch that is to be moved next, or None; reads once, without a lock.

    The one the pointer names; else the next that may be staged, by priority, then age; else one
    in Marking, which is an orphan at the beginning of a turn.
    """
    known = tx.sql.tell(tx.conn, timedelta(0))
    row = tx.execute(_most_advanced(tx.sql), known).mappings().first()
    if row is None:
        return None
    return NextBatch(
        batch=batch_from_row(dict(row)),
        cancel_asked=row["cancel_asked"],
        may_hold=row["may_hold"],
    )


@reading
def is_any_staging(tx: Transaction) -> bool:
    """Return whether any batch is in Staging, including one that has to wait."""
    return tx.execute(_ANY_STAGING).first() is not None


UNSTAMPED = exists().where(claims.batch_id == batches.batch_id, claims.sending_since.is_(None))
"""The condition that a batch has a message that was certainly not sent."""


@cache
def _most_advanced(sql: SqlDialect) -> Select[Any]:
    now, _ = sql.moments
    pointed = batches.batch_id.in_(select(retry_batch_now_forwarding.c.batch_id))
    # One that is to be cancelled need not wait for the broker, if there is something to release.
    cancelled = and_(retry_operations.c.cancel_asked, UNSTAMPED)
    staging = and_(batches.status == RetryBatchStatus.STAGING, or_(is_due(now), cancelled))
    return (
        # Asked here, so that without breakers there is no query about them.
        select(
            retry_batches,
            retry_operations.c.cancel_asked,
            ANY_NOT_CLOSED.label("may_hold"),
        )
        .join(retry_operations, retry_operations.c.operation_id == batches.operation_id)
        .where(or_(pointed, staging, batches.status == RetryBatchStatus.MARKING))
        .order_by(
            case((pointed, 0), (staging, 1), else_=2),
            retry_operations.c.priority,
            batches.created_at,
            batches.batch_id,
        )
        .limit(1)
    )
