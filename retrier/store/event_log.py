"""The event log (`event_log`): who did what to what, and when; in pages, and forward as it grows.

On PostgreSQL a transaction takes the ids of its events before it commits, so a higher id may be
there first. Who follows the log by the highest id seen would never come back for the lower one.

An act on many messages has one entry for each chunk: one for each of 300,000 messages would push
everything else out of sight. What was done to one message is found by its number.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cache
from types import MappingProxyType
from typing import overload

from sqlalchemy import Insert, delete, func, insert, or_, select

from retrier.domain.access import Refusals
from retrier.domain.archive_operation import Act, ArchiveOperation, ArchiveRequest
from retrier.domain.events import NO_PEOPLE, ROUTINE, SERVICE
from retrier.domain.identity import is_within, to_ranges
from retrier.domain.text import LONG_BYTES, IdRange, clean, count_messages
from retrier.domain.values import dataclass
from retrier.store.engine.database import Database, reading, writing
from retrier.store.engine.sql_dialect import SqlDialect
from retrier.store.engine.transaction import Transaction
from retrier.store.message_lists import Page, PageRequest
from retrier.store.schema import archive_operations, event_log
from retrier.store.selections import Condition

events = event_log.c


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


@writing
def note_refusals(tx: Transaction, refused: Sequence[Refusals]) -> None:
    """Write one entry for each address and reason, however often. Raises DatabaseUnavailable."""
    append(tx, [_entry_of_refusals(each) for each in refused])


def _entry_of_refusals(refused: Refusals) -> Entry:
    times = "" if refused.count == 1 else f" {refused.count:,} times"
    return Entry(
        kind="access_refused",
        text=f"refused{times}: {refused.reason}",
        who=f"{refused.who or 'anonymous'} ({refused.address})",
        details={"count": refused.count, "address": refused.address, "reason": refused.reason},
    )


def sweep(tx: Transaction, before: datetime, at_once: int) -> int:
    """Delete events from before that, and never the newest; return how many.

    SQLite gives the id after the highest one that is there. With an empty log it would give ids
    again that somebody who follows the log has seen already.
    """
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
class Mark:
    """One event as the plot of the page marks it."""

    event_id: int
    at: datetime
    kind: str
    text: str
    operation_id: str | None


MARKED = (
    "breaker_closed",
    "breaker_opened",
    "canary_failed",
    "operation_cancelled",
    "operation_paused",
    "operation_resumed",
    "retry_asked",
    "stream_released",
)
"""What stops or lets go more than one message, and each retry that was asked for."""


@reading
def list_marks(tx: Transaction, after: int, until: int) -> Sequence[Mark]:
    """Return the events with numbers above `after`, up to `until`, that the plot marks.

    Read by number: no index has their kinds. Raises DatabaseUnavailable.
    """
    query = (
        select(events.event_id, events.at, events.kind, events.text, events.operation_id)
        .where(events.event_id > after, events.event_id <= until, events.kind.in_(MARKED))
        .order_by(events.event_id)
    )
    return [Mark(**row) for row in tx.execute(query).mappings()]


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """Which events are wanted: those that meet every condition that is set; None is any.

    `who` is a name as its owner gives it; the log has it with the address from which they asked.
    Without `with_routine` only what is asked for as one of `kinds` is routine.
    """

    kinds: frozenset[str] | None = None
    operation_id: str | None = None
    unique_message_id: str | None = None
    who: str | None = None
    by_people: bool = False
    since: datetime | None = None
    until: datetime | None = None
    with_routine: bool = True

    def accepts(self, event: LoggedEvent) -> bool:
        """Say whether this event is wanted."""
        return (
            self._accepts_kind(event.kind)
            and self.operation_id in (None, event.operation_id)
            and self.unique_message_id in (None, event.unique_message_id)
            and (self.who is None or event.who.startswith(f"{self.who} (") or event.who == self.who)
            and not (self.by_people and event.who in NO_PEOPLE)
            and (self.since is None or self.since <= event.at)
            and (self.until is None or event.at <= self.until)
        )

    def _accepts_kind(self, kind: str) -> bool:
        if self.kinds is not None:
            return kind in self.kinds
        return self.with_routine or kind not in ROUTINE

    def conditions(self) -> Sequence[Condition]:
        """Return the same as SQL conditions."""
        wanted: list[Condition] = []
        if self.kinds is not None:
            wanted.append(events.kind.in_(sorted(self.kinds)))
        elif not self.with_routine:
            wanted.append(_TOLD)
        if self.operation_id is not None:
            wanted.append(events.operation_id == self.operation_id)
        if self.unique_message_id is not None:
            wanted.append(events.unique_message_id == self.unique_message_id)
        if self.who is not None:
            named = f"{self.who} ("
            wanted.append(
                or_(events.who == self.who, func.substr(events.who, 1, len(named)) == named)
            )
        if self.by_people:
            wanted.append(events.who.not_in(sorted(NO_PEOPLE)))
        if self.since is not None:
            wanted.append(events.at >= self.since)
        if self.until is not None:
            wanted.append(events.at <= self.until)
        return wanted


_TOLD = events.kind.not_in(sorted(ROUTINE))
EVERY_EVENT = EventFilter()


@reading
def list_events(
    tx: Transaction, page: PageRequest, wanted: EventFilter = EVERY_EVENT
) -> Page[LoggedEvent]:
    """Return one page of the event log, newest first. Raises DatabaseUnavailable."""
    conditions = wanted.conditions()
    total = page.count(tx, select(func.count()).select_from(event_log).where(*conditions))
    query = (
        select(event_log)
        .where(*conditions, *page.behind(events.event_id, descending=True))
        .order_by(events.event_id.desc())
        .limit(page.size)
        .offset(page.offset)
    )
    items = tuple(LoggedEvent(**row) for row in tx.execute(query).mappings())
    place = page.next_place(total, items, lambda last: [last.event_id])
    return Page(items=items, total=total, next=place)


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
def list_newest_told(tx: Transaction, most: int, look_back: int) -> tuple[int, ...]:
    """Return the ids of the newest events that are not routine, the newest first.

    Only so many of the last ids are looked at: beside a retry of a million messages nearly all of
    the log is routine. Raises DatabaseUnavailable.
    """
    newest = select(func.max(events.event_id)).scalar_subquery()
    query = (
        select(events.event_id)
        .where(events.event_id > newest - look_back, _TOLD)
        .order_by(events.event_id.desc())
        .limit(most)
    )
    return tuple(tx.execute(query).scalars())


@reading
def find_subjects(tx: Transaction, ids: IdRange, *, messages: bool) -> IdRange | None:
    """Return the ends of the ids in this range that events are about; None if there are none.

    The ids are those of operations, or of messages. Raises DatabaseUnavailable.
    """
    column = events.unique_message_id if messages else events.operation_id
    # PostgreSQL has no smallest and largest UUID, but it sorts them.
    any_one = select(column).where(column.between(ids.first, ids.last)).limit(1)
    smallest, largest = any_one.order_by(column), any_one.order_by(column.desc())
    first, last = tx.execute(select(smallest.scalar_subquery(), largest.scalar_subquery())).one()
    return None if first is None else IdRange(first=first, last=last)


@reading
def find_event_writers(tx: Transaction) -> frozenset[str]:
    """Return the transactions not over yet that may have taken ids of events."""
    return tx.sql.find_writers(tx.conn, event_log)


AT_ONCE = 500
"""Events that one look returns at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Doubt:
    """Events up to `until` may still come, as long as one of these transactions is not over."""

    until: int
    writers: frozenset[str]


class EventReader:
    """A place in the event log: all events up to `position` are read, and none will come there."""

    def __init__(self, db: Database, at_once: int = AT_ONCE) -> None:
        self._db = db
        self._at_once = at_once
        self._doubt: _Doubt | None = None
        self.position = 0

    def begin(self) -> None:
        """Go to the end of the log; more may come before that place until `settle` says no.

        Raises DatabaseUnavailable.
        """
        self.position = find_newest_event(self._db)
        self._doubt = self._doubt_all_until(self.position)

    def settle(self) -> bool:
        """Say whether no event will come before the position. Raises DatabaseUnavailable."""
        if self._doubt is not None and self._is_over(self._doubt):
            self._doubt = None
        return self._doubt is None

    @property
    def is_held(self) -> bool:
        """Whether it waits for the end of transactions: nothing announces their end."""
        return self._doubt is not None

    def read(self) -> Sequence[LoggedEvent]:
        """Return the events that follow, the lowest id first. Raises DatabaseUnavailable.

        Empty does not mean that there are none: behind a missing id they are held back until it
        has come, or nobody is left who could write it.
        """
        if self._doubt is not None and self._is_over(self._doubt):
            return self._read_until(self._doubt)
        found = list_events_after(self._db, self.position, self._at_once)
        sure = _count_unbroken(found, self.position)
        if sure < len(found) and self._doubt is None:
            self._doubt = self._doubt_all_until(found[-1].event_id)
            if sure == 0 and not self._doubt.writers:
                return self._read_until(self._doubt)
        return self._go_past(found[:sure])

    def _read_until(self, doubt: _Doubt) -> Sequence[LoggedEvent]:
        """Read what there is up to the place in doubt: what is missing now was rolled back."""
        found = list_events_after(self._db, self.position, self._at_once, until=doubt.until)
        if len(found) == self._at_once and found[-1].event_id < doubt.until:
            self._doubt = replace(doubt, writers=frozenset())
            return self._go_past(found)
        self._doubt = None
        self.position = max(self.position, doubt.until)
        return found

    def _doubt_all_until(self, until: int) -> _Doubt:
        # Looked up after the events were read. Whoever has taken a lower id has ended before, so
        # that the next look sees its events, or holds the lock that an insert takes first.
        return _Doubt(until=until, writers=find_event_writers(self._db))

    def _is_over(self, doubt: _Doubt) -> bool:
        return not doubt.writers or not doubt.writers & find_event_writers(self._db)

    def _go_past(self, events: Sequence[LoggedEvent]) -> Sequence[LoggedEvent]:
        if events:
            self.position = events[-1].event_id
        return events


def _count_unbroken(events: Sequence[LoggedEvent], after: int) -> int:
    """Return how many of these events follow each other without a missing id."""
    expected = enumerate(events, start=after + 1)
    return next(
        (place - after - 1 for place, each in expected if each.event_id != place), len(events)
    )


KINDS: Mapping[Act, str] = MappingProxyType(
    {
        Act.ARCHIVE: "messages_archived",
        Act.UNARCHIVE: "messages_unarchived",
        Act.RESOLVE: "messages_resolved",
    }
)
"""The kind of the entry for one chunk of each act."""


def find_bulk_acts(tx: Transaction, number: int) -> Sequence[LoggedEvent]:
    """Return the entries of chunks that changed the message with this number, the oldest first.

    Only those of operations that went chunk by chunk are read (their cursor has moved), by the
    index on the operation. There is one entry for each 1000 messages.
    """
    chunked = select(archive_operations.c.operation_id).where(archive_operations.c.cursor > 0)
    query = (
        select(event_log)
        .where(
            events.operation_id.in_(chunked),
            events.kind.in_(sorted(KINDS.values())),
            events.details["first"].as_integer() <= number,
            events.details["last"].as_integer() >= number,
        )
        .order_by(events.event_id)
    )
    found = (LoggedEvent(**row) for row in tx.execute(query).mappings())
    return [each for each in found if is_within(number, _ranges(each))]


def _ranges(entry: LoggedEvent) -> Sequence[Sequence[int]]:
    ranges = (entry.details or {}).get("numbers")
    return ranges if isinstance(ranges, list) else []


_WORDS: Mapping[Act, str] = MappingProxyType(
    {
        Act.ARCHIVE: "archived",
        Act.UNARCHIVE: "unarchived: unresolved again",
        Act.RESOLVE: "resolved by hand",
    }
)


def entry_of_many(act: Act, who: str, operation_id: str | None, numbers: Sequence[int]) -> Entry:
    """Return the entry for the messages with these numbers, ascending and at least one."""
    return Entry(
        kind=KINDS[act],
        text=f"{count_messages(len(numbers))} {_WORDS[act]}",
        who=who,
        operation_id=operation_id,
        details={"first": numbers[0], "last": numbers[-1], "numbers": to_ranges(numbers)},
    )


def entry_of_request(request: ArchiveRequest, operation_id: str, total: int) -> Entry:
    """Return the entry for a request whose messages are changed chunk by chunk."""
    return Entry(
        kind=f"{request.act}_asked",
        text=f"{request.originator}: {request.act} of {count_messages(total)} was asked for",
        who=request.requested_by,
        operation_id=operation_id,
    )


def entry_of_completion(operation: ArchiveOperation, done: int, skipped: int) -> Entry:
    """Return the entry for its end."""
    return Entry(
        kind=f"{operation.act}_completed",
        text=f"{operation.originator}: completed, changed: {done}, left as they were: {skipped}",
        who=operation.requested_by,
        operation_id=operation.operation_id,
    )
