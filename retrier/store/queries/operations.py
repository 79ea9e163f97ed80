"""Retry operations as people see them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Select, func, select

from retrier.domain.identity import canonical, is_guid
from retrier.domain.retry_operation import (
    ALIVE,
    STANDING_OPERATION,
    CanaryState,
    Priority,
    RetryOperation,
    RetryOperationState,
    RetryType,
    RunningCanary,
)
from retrier.domain.schedule import Schedule
from retrier.domain.text import IdRange
from retrier.domain.waiting import CLEAR, Obstacles
from retrier.store.engine.database import reading
from retrier.store.engine.transaction import Transaction
from retrier.store.queries.canaries import count_back
from retrier.store.queries.ordering import Page, PageRequest
from retrier.store.queries.schedules import find_schedule
from retrier.store.queries.selections import Condition, from_json
from retrier.store.queries.waits import find_obstacles
from retrier.store.schema import (
    retry_batches,
    retry_operation_canaries,
    retry_operation_messages,
    retry_operations,
)

columns = retry_operations.c
canaries = retry_operation_canaries.c

SHOWN_SKIPPED = 1000
"""Skipped ids shown with their reasons, at most; `skipped` counts them all."""


_PLAIN = (
    columns.operation_id,
    columns.cut_off,
    columns.floor,
    columns.originator,
    columns.requested_by,
    columns.why,
    columns.total,
    columns.forwarded,
    columns.skipped,
    columns.failed,
    columns.batches,
    columns.left_out,
    columns.dead_left_out,
    columns.destination,
    columns.rate,
    columns.cancel_asked,
    columns.passed_over,
    columns.look_again_at,
    columns.reason,
    columns.not_before,
    columns.next_cut,
    columns.created_at,
    columns.started_at,
    columns.completed_at,
    columns.acknowledged_at,
    columns.modified_at,
)
"""Columns that are shown as they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationDetails:
    """An operation, its batch if it has one now, and why named ids were skipped.

    `batch_reason` is why its batch waits. `at` is the database's time of this query, for estimates. `came_back` counts the messages of its
    canary that came back; None if it has none. `schedule` is that of the standing operation.
    """

    operation: RetryOperation
    at: datetime
    batch_id: str | None
    batch_reason: str | None
    skipped: Mapping[str, str]
    came_back: int | None = None
    schedule: Schedule | None = None
    obstacles: Obstacles = CLEAR


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedOperations:
    """One page of operations, and the schedule if the standing operation is among them.

    `at` is the database's time, `obstacles` what holds up all of them.
    """

    page: Page[RetryOperation]
    schedule: Schedule | None
    at: datetime
    obstacles: Obstacles


@reading
def list_operations(
    tx: Transaction, page: PageRequest, ids: IdRange | None = None
) -> ListedOperations:
    """Return one page of all operations, newest first, or of those in a range of ids.

    The standing operation comes before all others. Raises DatabaseUnavailable.
    """
    wanted = [columns.operation_id.between(ids.first, ids.last)] if ids else []
    count = select(func.count()).select_from(retry_operations).where(*wanted)
    total = tx.execute(count).scalar_one()
    query = (
        with_canaries()
        .where(*wanted)
        .order_by(
            columns.operation_id != STANDING_OPERATION,
            columns.created_at.desc(),
            columns.operation_id,
        )
        .limit(page.size)
        .offset(page.offset)
    )
    items = tuple(operation_from_row(dict(row)) for row in tx.execute(query).mappings())
    return ListedOperations(
        page=Page(items=items, total=total),
        schedule=_find_schedule_of(tx, items),
        at=tx.now,
        obstacles=find_obstacles(tx),
    )


def _find_schedule_of(tx: Transaction, shown: Sequence[RetryOperation]) -> Schedule | None:
    return find_schedule(tx) if any(each.is_standing for each in shown) else None


@reading
def find_operation(tx: Transaction, operation_id: str) -> OperationDetails | None:
    """Return the operation with that id, or None. Raises DatabaseUnavailable."""
    if not is_guid(operation_id):
        return None
    query = with_canaries().where(columns.operation_id == canonical(operation_id))
    row = tx.execute(query).mappings().one_or_none()
    if row is None:
        return None
    operation = operation_from_row(dict(row))
    key = operation.operation_id
    batches = retry_batches.c
    query = select(batches.batch_id, batches.reason).where(batches.operation_id == key)
    batch = tx.execute(query).one_or_none()
    return OperationDetails(
        operation=operation,
        at=tx.now,
        batch_id=None if batch is None else batch.batch_id,
        batch_reason=None if batch is None else batch.reason,
        skipped=read_skipped(tx, key),
        came_back=count_back(tx, operation),
        schedule=_find_schedule_of(tx, [operation]),
        obstacles=find_obstacles(tx),
    )


def is_alive() -> Condition:
    """Return the condition that an operation is neither completed nor cancelled."""
    return columns.state.in_(sorted(ALIVE))


def is_resting() -> Condition:
    """Return the condition that it is the standing operation, and is not cut: nothing is due."""
    standing = columns.operation_id == STANDING_OPERATION
    return standing & (columns.state == RetryOperationState.WAITING)


def with_canaries() -> Select[Any]:
    """Return the query for rows of operations, each with its canary if it has one."""
    return select(
        retry_operations,
        canaries.size.label("canary_size"),
        canaries.wait_ms.label("canary_wait"),
        canaries.most_back.label("canary_most_back"),
        canaries.state.label("canary_state"),
    ).outerjoin_from(
        retry_operations,
        retry_operation_canaries,
        canaries.operation_id == columns.operation_id,
    )


def operation_from_row(row: Mapping[str, Any]) -> RetryOperation:
    """Return a row of retry_operations, or of `with_canaries`, as a RetryOperation."""
    return RetryOperation(
        **{column.name: row[column.name] for column in _PLAIN},
        retry_type=RetryType(row["retry_type"]),
        selection=from_json(row["selection"]),
        limit=row["message_limit"],
        priority=Priority(row["priority"]),
        state=RetryOperationState(row["state"]),
        canary=_canary(row),
        drop_headers=tuple(row["drop_headers"] or ()),
    )


def _canary(row: Mapping[str, Any]) -> RunningCanary | None:
    if row.get("canary_size") is None:
        return None
    return RunningCanary(
        size=row["canary_size"],
        wait=timedelta(milliseconds=row["canary_wait"]),
        most_back=row["canary_most_back"],
        state=CanaryState(row["canary_state"]),
    )


def read_skipped(tx: Transaction, operation_id: str) -> dict[str, str]:
    """Return why named ids were skipped so far, the first 1000 of them."""
    named = retry_operation_messages.c
    query = (
        select(named.unique_message_id, named.skipped_because)
        .where(named.operation_id == operation_id, named.skipped_because.is_not(None))
        .order_by(named.position)
        .limit(SHOWN_SKIPPED)
    )
    return {row.unique_message_id: row.skipped_because for row in tx.execute(query)}
