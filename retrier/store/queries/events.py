"""The event log as people read it."""

from dataclasses import dataclass
from datetime import datetime
from functools import partial

from sqlalchemy import Connection, func, select

from retrier.store.database import Database
from retrier.store.reading.pages import Page, PageRequest
from retrier.store.schema import event_log


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedEvent:
    """One line of the event log."""

    event_id: int
    at: datetime
    kind: str
    who: str
    text: str
    unique_message_id: str | None
    operation_id: str | None
    batch_id: str | None
    details: dict[str, object] | None


def list_events(db: Database, page: PageRequest) -> Page[LoggedEvent]:
    """Return one page of the event log, newest first. Raises DatabaseUnavailable."""
    return db.read(partial(_list, page))


def _list(page: PageRequest, conn: Connection) -> Page[LoggedEvent]:
    query = (
        select(event_log).order_by(event_log.c.event_id.desc()).limit(page.size).offset(page.offset)
    )
    total = conn.execute(select(func.count()).select_from(event_log)).scalar_one()
    rows = conn.execute(query).mappings()
    return Page(items=tuple(LoggedEvent(**row) for row in rows), total=total)
