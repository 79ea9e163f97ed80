"""The event log: who did what to what, and when."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from functools import partial

from sqlalchemy import Connection, delete, insert

from retrier.store.database import Database
from retrier.store.schema import event_log

SERVICE = "retrier"
"""Who did what nobody asked for."""


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
    """Add the events inside the transaction that causes them."""
    if events:
        conn.execute(insert(event_log), [{"at": at, **asdict(event)} for event in events])


def sweep_events(db: Database, *, older_than: timedelta) -> int:
    """Delete events older than that; return how many. Raises DatabaseUnavailable."""
    return db.transact(partial(_sweep, db, older_than))


def _sweep(db: Database, older_than: timedelta, conn: Connection) -> int:
    limit = db.sql.now(conn) - older_than
    return conn.execute(delete(event_log).where(event_log.c.at < limit)).rowcount
