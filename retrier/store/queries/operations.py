"""Retry operations as people follow them."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from sqlalchemy import ColumnElement, Connection, func, select

from retrier.domain.retry_operation import RetryOperation, RetryOperationState
from retrier.domain.short_ids import IdRange
from retrier.store import operations
from retrier.store.database import Database
from retrier.store.reading.pages import Page, PageRequest
from retrier.store.schema import retry_batches, retry_operation_messages, retry_operations

columns = retry_operations.c

SHOWN_SKIPPED = 1000
"""So many skipped ids at most are shown with their reasons; `skipped` counts them all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationDetails:
    """An operation, the batch of it that is alive, and why named ids were skipped.

    `at` is the database's time of the look, for estimates.
    """

    operation: RetryOperation
    at: datetime
    batch_id: str | None
    skipped: Mapping[str, str]


def list_operations(
    db: Database, page: PageRequest, ids: IdRange | None = None
) -> Page[RetryOperation]:
    """Return one page of all operations, newest first, or of those in a range of ids.

    Raises DatabaseUnavailable.
    """
    return db.read(partial(_list, page, ids))


def find_operation(db: Database, operation_id: str) -> OperationDetails | None:
    """Return the operation with that id, or None. Raises DatabaseUnavailable."""
    return db.read(partial(_find, db, operation_id))


def is_alive() -> ColumnElement[bool]:
    """Return the condition that an operation is neither completed nor cancelled."""
    over = [RetryOperationState.COMPLETED, RetryOperationState.CANCELLED]
    alive = [state for state in RetryOperationState if state not in over]
    return columns.state.in_(alive)


def _list(page: PageRequest, ids: IdRange | None, conn: Connection) -> Page[RetryOperation]:
    wanted = [columns.operation_id.between(ids.first, ids.last)] if ids else []
    count = select(func.count()).select_from(retry_operations).where(*wanted)
    total = conn.execute(count).scalar_one()
    query = (
        select(retry_operations)
        .where(*wanted)
        .order_by(columns.created_at.desc(), columns.operation_id)
        .limit(page.size)
        .offset(page.offset)
    )
    rows = conn.execute(query).mappings()
    return Page(items=tuple(operations.from_row(dict(row)) for row in rows), total=total)


def _find(db: Database, operation_id: str, conn: Connection) -> OperationDetails | None:
    query = select(retry_operations).where(columns.operation_id == operation_id)
    row = conn.execute(query).mappings().one_or_none()
    if row is None:
        return None
    batch = select(retry_batches.c.batch_id).where(retry_batches.c.operation_id == operation_id)
    return OperationDetails(
        operation=operations.from_row(dict(row)),
        at=db.sql.now(conn),
        batch_id=conn.execute(batch).scalar_one_or_none(),
        skipped=_skipped(conn, operation_id),
    )


def _skipped(conn: Connection, operation_id: str) -> dict[str, str]:
    named = retry_operation_messages.c
    query = (
        select(named.unique_message_id, named.skipped_because)
        .where(named.operation_id == operation_id, named.skipped_because.is_not(None))
        .order_by(named.position)
        .limit(SHOWN_SKIPPED)
    )
    return {row.unique_message_id: row.skipped_because for row in conn.execute(query)}
