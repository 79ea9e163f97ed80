"""Reads the event log forward as it grows: in the order of ids, and every event once.

On PostgreSQL a transaction takes the ids of its events before it commits, so a higher id may be
there first. Who went by the highest id seen would never come back for the lower one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from retrier.store.engine.database import Database
from retrier.store.queries.event_log import (
    LoggedEvent,
    find_event_writers,
    find_newest_event,
    list_events_after,
)

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
