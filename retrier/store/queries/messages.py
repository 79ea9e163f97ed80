"""Failed messages as lists show them."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from functools import partial
from typing import Any

from sqlalchemy import Connection, func, select

from retrier.domain.failed_message import Disposition, FailedMessageStatus
from retrier.store.database import Database
from retrier.store.reading.filters import MessageFilter, seeking
from retrier.store.reading.ordering import Order, find_ids
from retrier.store.reading.pages import Page, PageRequest
from retrier.store.schema import failed_messages


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedMessage:
    """A failed message without its headers, body and attempts; names are those of the columns."""

    unique_message_id: str
    message_id: str | None
    status: FailedMessageStatus
    queue: str
    endpoint: str | None
    message_type: str | None
    exception_type: str | None
    exception_message: str | None
    stack_trace: str | None
    failure_reason: str | None
    time_sent: datetime | None
    first_failure: datetime
    last_failure: datetime
    attempts: int
    disposition: Disposition
    disposition_reason: str | None
    retry_at: datetime | None
    last_modified: datetime


COLUMNS = tuple(failed_messages.c[field.name] for field in fields(ListedMessage))


def list_messages(
    db: Database, wanted: MessageFilter, order: Order, page: PageRequest
) -> Page[ListedMessage]:
    """Return one page of the messages that match. Raises DatabaseUnavailable."""
    return db.read(partial(_list, db, wanted, order, page))


def from_row(row: Mapping[str, Any]) -> ListedMessage:
    """Return a row that has at least these columns as a value."""
    values = {column.name: row[column.name] for column in COLUMNS}
    return ListedMessage(
        **values
        | {
            "status": FailedMessageStatus(row["status"]),
            "disposition": Disposition(row["disposition"]),
        }
    )


def _list(
    db: Database, wanted: MessageFilter, order: Order, page: PageRequest, conn: Connection
) -> Page[ListedMessage]:
    count = select(func.count()).select_from(failed_messages).where(*seeking(wanted))
    total = conn.execute(count).scalar_one()
    ids = find_ids(conn, wanted, order, page, total=total)
    query = select(*COLUMNS).where(db.sql.member(failed_messages.c.unique_message_id, ids))
    found = {
        row["unique_message_id"]: from_row(dict(row)) for row in conn.execute(query).mappings()
    }
    return Page(items=tuple(found[key] for key in ids if key in found), total=total)
