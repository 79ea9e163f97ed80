"""The event log (`event_log`): who did what to what, and when; texts cut to fit columns."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import overload

from sqlalchemy import Insert, delete, func, insert, select

from retrier.domain.text import LONG_BYTES, clean
from retrier.store.engine.sql_dialect import SqlDialect
from retrier.store.engine.transaction import Transaction
from retrier.store.schema import event_log

_ID_BYTES = 36


@overload
def short(text: str) -> str: ...
@overload
def short(text: None) -> None: ...
@overload
def short(text: str | None) -> str | None: ...
def short(text: str | None) -> str | None:
    """Clean, and cut to what an index can hold (1 KiB)."""
    return None if text is None else clean(text)


def long(text: str | None) -> str | None:
    """Clean, and cut to what a person would read (64 KiB)."""
    return None if text is None else clean(text, LONG_BYTES)


def identifier(text: str | None) -> str | None:
    """Clean, and cut to the length of our ids (36 bytes)."""
    return None if text is None else clean(text, _ID_BYTES)


SERVICE = "retrier"
"""The value of `who` for what no person asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of the log; `text` is a sentence a person can read."""

    kind: str
    text: str
    who: str = SERVICE
    unique_message_id: str | None = None
    operation_id: str | None = None
    batch_id: str | None = None
    details: dict[str, object] | None = None


def append(tx: Transaction, events: Sequence[Entry]) -> None:
    """Add the events inside the transaction that causes them; cleans and cuts their texts."""
    rows = [{"at": tx.now, **_row(event)} for event in events]
    if rows:
        # The first one wakes whoever follows: that is once for all, and no statement of its own.
        tx.execute(_announced(tx.sql), rows[:1])
    if rows[1:]:
        tx.execute(_APPEND, rows[1:])


def sweep(tx: Transaction, before: datetime, at_once: int) -> int:
    """Delete events from before that, and never the newest; return how many.

    SQLite gives the id after the highest one that is there. With an empty log it would give ids
    again that somebody who follows the log has seen already.
    """
    events = event_log.c
    newest = select(func.max(events.event_id)).scalar_subquery()
    old = (events.at < before, events.event_id < newest)
    oldest = select(events.event_id).where(*old).order_by(events.at)
    swept = delete(event_log).where(events.event_id.in_(oldest.limit(at_once)))
    return tx.execute(swept).rowcount


_APPEND = insert(event_log)


@cache
def _announced(sql: SqlDialect) -> Insert:
    return sql.announcing(_APPEND)


def _row(event: Entry) -> dict[str, object]:
    return {
        "kind": event.kind,
        "text": long(event.text),
        "who": short(event.who),
        "unique_message_id": identifier(event.unique_message_id),
        "operation_id": event.operation_id,
        "batch_id": event.batch_id,
        "details": event.details,
    }
