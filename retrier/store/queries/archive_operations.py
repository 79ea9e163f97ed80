"""Archive operations as people and the service see them."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import func, select

from retrier.domain.archive_operation import (
    Act,
    ArchiveOperation,
    ArchiveOperationState,
    select_for,
)
from retrier.domain.identity import canonical, is_guid
from retrier.domain.selection import Selection
from retrier.domain.text import IdRange
from retrier.store.engine.database import reading
from retrier.store.engine.transaction import Transaction
from retrier.store.queries.ordering import Page, PageRequest
from retrier.store.queries.selections import from_json
from retrier.store.schema import archive_operation_messages, archive_operations

columns = archive_operations.c

SHOWN_REFUSED = 1000
"""Named ids that were left as they were, shown with their reasons, at most."""

OPEN = (ArchiveOperationState.WAITING, ArchiveOperationState.RUNNING)
"""The states in which there is something to do."""

_TURNED = ("act", "selection", "state", "idempotency_key", "request_hash")
"""Columns that are turned into values, or are not shown."""
_PLAIN = tuple(column.name for column in columns if column.name not in _TURNED)


@reading
def list_archive_operations(
    tx: Transaction, page: PageRequest, ids: IdRange | None = None
) -> Page[ArchiveOperation]:
    """Return one page of all archive operations, newest first, or of those in a range of ids.

    Raises DatabaseUnavailable.
    """
    wanted = [columns.operation_id.between(ids.first, ids.last)] if ids else []
    count = select(func.count()).select_from(archive_operations).where(*wanted)
    query = (
        select(archive_operations)
        .where(*wanted)
        .order_by(columns.created_at.desc(), columns.operation_id)
        .limit(page.size)
        .offset(page.offset)
    )
    rows = tx.execute(query).mappings()
    return Page(
        items=tuple(archive_from_row(dict(row)) for row in rows),
        total=tx.execute(count).scalar_one(),
    )


@reading
def find_archive_operation(tx: Transaction, operation_id: str) -> ArchiveOperation | None:
    """Return the archive operation with that id, or None. Raises DatabaseUnavailable."""
    if not is_guid(operation_id):
        return None
    query = select(archive_operations).where(columns.operation_id == canonical(operation_id))
    row = tx.execute(query).mappings().one_or_none()
    return None if row is None else archive_from_row(dict(row))


@reading
def find_refused(tx: Transaction, operation_id: str) -> Mapping[str, str]:
    """Return why named ids were left as they were, the first 1000. Raises DatabaseUnavailable."""
    named = archive_operation_messages.c
    query = (
        select(named.unique_message_id, named.refused_because)
        .where(named.operation_id == operation_id, named.refused_because.is_not(None))
        .order_by(named.position)
        .limit(SHOWN_REFUSED)
    )
    return {row.unique_message_id: row.refused_because for row in tx.execute(query)}


@reading
def list_open_archives(tx: Transaction, most: int) -> tuple[ArchiveOperation, ...]:
    """Return archive operations that are not completed, the oldest first.

    Raises DatabaseUnavailable.
    """
    query = (
        select(archive_operations)
        .where(columns.state.in_(OPEN))
        .order_by(columns.created_at, columns.operation_id)
        .limit(most)
    )
    return tuple(archive_from_row(dict(row)) for row in tx.execute(query).mappings())


@reading
def find_next_archive(tx: Transaction) -> ArchiveOperation | None:
    """Return the oldest archive operation that is not completed. Raises DatabaseUnavailable."""
    query = (
        select(archive_operations)
        .where(columns.state.in_(OPEN))
        .order_by(columns.created_at, columns.operation_id)
        .limit(1)
    )
    row = tx.execute(query).mappings().first()
    return None if row is None else archive_from_row(dict(row))


@reading
def is_any_open(tx: Transaction, act: Act) -> bool:
    """Say whether an operation with this act is not completed. Raises DatabaseUnavailable."""
    one = select(columns.operation_id).where(columns.state.in_(OPEN), columns.act == act).limit(1)
    return tx.execute(one).first() is not None


def archive_from_row(row: Mapping[str, Any]) -> ArchiveOperation:
    """Return a row of archive_operations as an ArchiveOperation."""
    act = Act(row["act"])
    return ArchiveOperation(
        **{name: row[name] for name in _PLAIN},
        act=act,
        selection=select_for(act, _selection(row["selection"])),
        state=ArchiveOperationState(row["state"]),
    )


def _selection(parts: Mapping[str, Any]) -> Selection:
    sent, modified = parts.get("sent_before"), None
    if "modified_from" in parts:
        first, last = parts["modified_from"], parts["modified_to"]
        modified = (datetime.fromisoformat(first), datetime.fromisoformat(last))
    return replace(
        from_json(parts),
        modified=modified,
        pending=bool(parts.get("pending")),
        sent_before=None if sent is None else datetime.fromisoformat(sent),
        sent_to=parts.get("sent_to"),
    )
