"""The event log as people read it."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select

from retrier.store.engine.transaction import Transaction
from retrier.store.engine.verb import reading
from retrier.store.queries.ordering import Page, PageRequest
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


@reading
def list_events(tx: Transaction, page: PageRequest) -> Page[LoggedEvent]:
    """Return one page of the event log, newest first. Raises DatabaseUnavailable."""
    query = (
        select(event_log).order_by(event_log.c.event_id.desc()).limit(page.size).offset(page.offset)
    )
    total = tx.execute(select(func.count()).select_from(event_log)).scalar_one()
    rows = tx.execute(query).mappings()
    return Page(items=tuple(LoggedEvent(**row) for row in rows), total=total)
