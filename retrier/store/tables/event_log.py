"""The event log: who did what to what, and when."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from sqlalchemy import Connection, delete, insert, select

from retrier.store.columns import identifier, long, short
from retrier.store.database import Database
from retrier.store.schema import event_log

SERVICE = "retrier"
"""Who did what nobody asked for."""

_SWEPT_AT_ONCE = 1000
_APPEND = insert(event_log)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One line of the log; `text` is a sentence a person can read."""

    kind: str
    text: str
    who: str = SERVICE
    unique_message_id: str | None = None
    operation_id: str | None = None
    batch_id: str | None = None
    details: dict[str, object] | None = None


def append(conn: Connection, at: datetime, events: Sequence[Event]) -> None:
    """Add the events inside the transaction that causes them; any text will do."""
    if events:
        conn.execute(_APPEND, [{"at": at, **_row(event)} for event in events])


def sweep_events(db: Database, *, older_than: timedelta) -> int:
    """Delete events older than that, a thousand in each transaction; return how many.

    All at once they could take longer than a statement may, and would then never go. Raises
    DatabaseUnavailable.
    """
    swept = deleted = db.transact(partial(_sweep, db, older_than))
    while deleted == _SWEPT_AT_ONCE:
        deleted = db.transact(partial(_sweep, db, older_than))
        swept += deleted
    return swept


def _row(event: Event) -> dict[str, object]:
    return {
        "kind": event.kind,
        "text": long(event.text),
        "who": short(event.who),
        "unique_message_id": identifier(event.unique_message_id),
        "operation_id": event.operation_id,
        "batch_id": event.batch_id,
        "details": event.details,
    }


def _sweep(db: Database, older_than: timedelta, conn: Connection) -> int:
    limit = db.sql.now(conn) - older_than
    events = event_log.c
    oldest = select(events.event_id).where(events.at < limit).order_by(events.at)
    swept = delete(event_log).where(events.event_id.in_(oldest.limit(_SWEPT_AT_ONCE)))
    return conn.execute(swept).rowcount
