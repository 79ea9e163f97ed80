"""Messages, operations and imports that have been settled for a while, and what deletes them."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from threading import Event
from typing import Any

from sqlalchemy import Table, update

from retrier.clock import SystemClock
from retrier.domain.archive_operation import Act
from retrier.domain.retention import RetentionTimes, SecondLook, find_ages
from retrier.processor.retention import RetentionJob
from retrier.store.archive import Action
from retrier.store.engine.database import Database
from retrier.store.schema import failed_messages
from tests.support.acting import apply_action
from tests.support.bench import Bench

DAY = timedelta(days=1)
TIMES: dict[str, timedelta | None] = {
    "resolved": 10 * DAY,
    "presumed": 10 * DAY,
    "archived": 10 * DAY,
    "operations": 90 * DAY,
    "imports": None,
}
"""The defaults."""


def at_once() -> SecondLook:
    """Return looks that agree with whatever the database's clock says."""
    second_look = SecondLook(timedelta(0))
    second_look.note(0, datetime.max.replace(tzinfo=UTC))
    return second_look


def make_retention(
    bench: Bench, second_look: SecondLook | None = None, /, **times: timedelta | None
) -> RetentionJob:
    """Return what deletes for the processor of this bench; `times` replace defaults."""
    return RetentionJob(
        context=replace(bench.context, stop=Event()),
        ages=find_ages(RetentionTimes(**(TIMES | times))),
        instance="test",
        second_look=second_look or at_once(),
    )


def sweep(bench: Bench, **times: timedelta | None) -> None:
    """Delete what is old, once."""
    make_retention(bench, **times).sweep()


def settle(db: Database, act: Act, ids: Sequence[str]) -> None:
    """Archive or resolve messages."""
    assert set(apply_action(db, Action(act=act, who="ada"), ids).done) == set(ids)


def age(db: Database, days: float, *ids: str) -> None:
    """Let it be so long since these messages changed; all messages if none is named."""
    key = failed_messages.c.unique_message_id
    change = update(failed_messages).values(last_modified=ago(days))
    with db.engine.begin() as conn:
        conn.execute(change.where(key.in_(ids)) if ids else change)


def set_time(db: Database, table: Table, **values: Any) -> None:
    """Set columns of all rows of a table."""
    with db.engine.begin() as conn:
        conn.execute(update(table).values(**values))


def ago(days: float) -> datetime:
    """Return the time so many days ago."""
    return SystemClock().now() - timedelta(days=days)
