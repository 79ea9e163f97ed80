"""The event log: in pages for people, and forward for who follows it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select

from retrier.store.engine.database import reading
from retrier.store.engine.transaction import Transaction
from retrier.store.queries.ordering import Page, PageRequest
from retrier.store.queries.selections import Condition
from retrier.store.schema import event_log

events = event_log.c


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


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """Which events are wanted: those of one of these kinds, and about these; None is any."""

    kinds: frozenset[str] | None = None
    operation_id: str | None = None
    unique_message_id: str | None = None

    def accepts(self, event: LoggedEvent) -> bool:
        """Say whether this event is wanted."""
        return (
            (self.kinds is None or event.kind in self.kinds)
            and self.operation_id in (None, event.operation_id)
            and self.unique_message_id in (None, event.unique_message_id)
        )

    def conditions(self) -> Sequence[Condition]:
        """Return the same as SQL conditions."""
        wanted: list[Condition] = []
        if self.kinds is not None:
            wanted.append(events.kind.in_(sorted(self.kinds)))
        if self.operation_id is not None:
            wanted.append(events.operation_id == self.operation_id)
        if self.unique_message_id is not None:
            wanted.append(events.unique_message_id == self.unique_message_id)
        return wanted


EVERY_EVENT = EventFilter()


@reading
def list_events(
    tx: Transaction, page: PageRequest, wanted: EventFilter = EVERY_EVENT
) -> Page[LoggedEvent]:
    """Return one page of the event log, newest first. Raises DatabaseUnavailable."""
    conditions = wanted.conditions()
    count = select(func.count()).select_from(event_log).where(*conditions)
    query = (
        select(event_log)
        .where(*conditions)
        .order_by(events.event_id.desc())
        .limit(page.size)
        .offset(page.offset)
    )
    total = tx.execute(count).scalar_one()
    rows = tx.execute(query).mappings()
    return Page(items=tuple(LoggedEvent(**row) for row in rows), total=total)


@reading
def list_newest_events(
    tx: Transaction, most: int, wanted: EventFilter = EVERY_EVENT, *, before: int | None = None
) -> tuple[LoggedEvent, ...]:
    """Return at most so many events, newest first; with `before` only those with a lower id.

    Nothing is counted: the log may have millions of lines. Raises DatabaseUnavailable.
    """
    begins = [] if before is None else [events.event_id < before]
    query = (
        select(event_log)
        .where(*begins, *wanted.conditions())
        .order_by(events.event_id.desc())
        .limit(most)
    )
    return tuple(LoggedEvent(**row) for row in tx.execute(query).mappings())


@reading
def list_events_after(
    tx: Transaction,
    after: int,
    most: int,
    *,
    until: int | None = None,
    wanted: EventFilter = EVERY_EVENT,
) -> tuple[LoggedEvent, ...]:
    """Return at most so many events with a higher id, the lowest first; none above `until`.

    Raises DatabaseUnavailable.
    """
    ends = [] if until is None else [events.event_id <= until]
    query = (
        select(event_log)
        .where(events.event_id > after, *ends, *wanted.conditions())
        .order_by(events.event_id)
        .limit(most)
    )
    return tuple(LoggedEvent(**row) for row in tx.execute(query).mappings())


def events_named(tx: Transaction, ids: Sequence[int]) -> Mapping[int, LoggedEvent]:
    """Return the events with these ids."""
    query = select(event_log).where(tx.sql.member(events.event_id, ids))
    return {row["event_id"]: LoggedEvent(**row) for row in tx.execute(query).mappings()}


@reading
def find_newest_event(tx: Transaction) -> int:
    """Return the highest id of an event that is committed; 0 before the first."""
    return tx.execute(select(func.max(events.event_id))).scalar_one() or 0


@reading
def find_event_writers(tx: Transaction) -> frozenset[str]:
    """Return the transactions not over yet that may have taken ids of events."""
    return tx.sql.find_writers(tx.conn, event_log)
