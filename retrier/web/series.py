"""What happened in each minute of a day, and in each hour before it: the plot of the overview.

A failure is counted once, by its number; an hour that is over is not counted again.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from retrier.domain.values import dataclass
from retrier.store.engine.database import Database
from retrier.store.event_log import Mark, find_newest_event, list_marks
from retrier.store.figures import ByMinute, count_attempts, count_retries, find_last_attempt

BY_MINUTE = timedelta(hours=24)
KEPT = timedelta(days=30)
BACK_AT_ONCE = 20_000
"""Older failures or events that one look reads: no index knows the times of the first."""
MOST_MARKS = 500
"""The newest ones are kept."""
_HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """What happened in one minute, or in a longer time that begins at `at`."""

    at: datetime
    failed: int = 0
    sent: int = 0
    confirmed: int = 0

    def plus(self, failed: int = 0, sent: int = 0, confirmed: int = 0) -> "Slot":
        """Return it with more."""
        return replace(
            self,
            failed=self.failed + failed,
            sent=self.sent + sent,
            confirmed=self.confirmed + confirmed,
        )


class Backwards:
    """Numbers that are read from now on as they come, and back from the first look bit by bit."""

    def __init__(self) -> None:
        self._first: int | None = None
        self._last = 0

    def news(self, last: int) -> tuple[int, int] | None:
        """Return which numbers are new; nothing at the first look, which only notes where it is."""
        if self._first is None:
            self._first = self._last = last
        if last <= self._last:
            return None
        before, self._last = self._last, last
        return before, last

    def next_back(self) -> tuple[int, int] | None:
        """Return which older numbers are to be read now; None if none is left."""
        return (max(0, self._first - BACK_AT_ONCE), self._first) if self._first else None

    def note_back(self, oldest: datetime | None, since: datetime) -> None:
        """Note that these were read. Behind one that is too old, and a gap, no younger is expected."""
        over = oldest is None or oldest < since
        self._first = 0 if over else max(0, (self._first or 0) - BACK_AT_ONCE)

    @property
    def has_begun(self) -> bool:
        """Whether there was a look."""
        return self._first is not None


class Series:
    """What is known of each minute and hour. A look at failures reads each of them once."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._failures, self._events = Backwards(), Backwards()
        self._failed: dict[datetime, int] = {}
        self._sent: ByMinute = {}
        self._confirmed: ByMinute = {}
        self._hours: dict[datetime, Slot] = {}
        self._begins: datetime | None = None
        self._has_older = False
        self._marks: dict[int, Mark] = {}

    def look(self, now: datetime) -> None:
        """Count what happened since the last look, and some of what happened before the first."""
        begins = (now - BY_MINUTE).replace(minute=0, second=0, microsecond=0)
        # Not at the first look: the first page is not to wait for a month.
        if self._begins is not None and not self._has_older:
            self._count_older(now - KEPT, self._begins)
        self._end_hours(begins)
        self._count_new()
        self._count_back(now - KEPT)
        retries = count_retries(self._db, begins)
        self._sent, self._confirmed = retries.sent, retries.confirmed
        self._hours = {at: each for at, each in self._hours.items() if at >= now - KEPT}
        self._look_at_events(now - KEPT)

    def count_new_failures(self) -> None:
        """Count the failures since the last look only."""
        if self._failures.has_begun:
            self._count_new()

    def minutes(self) -> Sequence[Slot]:
        """Return the minutes of a day in which something happened, the oldest first."""
        failed, sent, confirmed = self._failed, self._sent, self._confirmed
        return [
            Slot(
                at=at,
                failed=failed.get(at, 0),
                sent=sent.get(at, 0),
                confirmed=confirmed.get(at, 0),
            )
            for at in sorted({*failed, *sent, *confirmed})
        ]

    def hours(self) -> Sequence[Slot]:
        """Return the hours before these minutes in which something happened, the oldest first."""
        return [self._hours[at] for at in sorted(self._hours)]

    @property
    def marks(self) -> Sequence[Mark]:
        """The events to be marked, the oldest first."""
        return [self._marks[key] for key in sorted(self._marks)]

    def _count_older(self, since: datetime, until: datetime) -> None:
        found = count_retries(self._db, since, until)
        for at, count in found.sent.items():
            self._add(at, sent=count)
        for at, count in found.confirmed.items():
            self._add(at, confirmed=count)
        self._has_older = True

    def _end_hours(self, begins: datetime) -> None:
        """Take the minutes that are before that into their hours."""
        for at in [at for at in self._failed if at < begins]:
            self._add(at, failed=self._failed.pop(at))
        for at, count in _before(self._sent, begins):
            self._add(at, sent=count)
        for at, count in _before(self._confirmed, begins):
            self._add(at, confirmed=count)
        self._begins = begins

    def _add(self, at: datetime, failed: int = 0, sent: int = 0, confirmed: int = 0) -> None:
        hour = at.replace(minute=0, second=0, microsecond=0)
        known = self._hours.get(hour, Slot(at=hour))
        self._hours[hour] = known.plus(failed, sent, confirmed)

    def _count_new(self) -> None:
        news = self._failures.news(find_last_attempt(self._db))
        if news is not None:
            self._take_failures(count_attempts(self._db, *news))

    def _count_back(self, since: datetime) -> None:
        back = self._failures.next_back()
        if back is not None:
            found = count_attempts(self._db, *back)
            self._take_failures(found)
            self._failures.note_back(min(found, default=None), since)

    def _take_failures(self, found: Mapping[datetime, int]) -> None:
        for at, count in found.items():
            if self._begins is not None and at < self._begins:
                self._add(at, failed=count)
            else:
                self._failed[at] = self._failed.get(at, 0) + count

    def _look_at_events(self, since: datetime) -> None:
        found: list[Mark] = []
        news = self._events.news(find_newest_event(self._db))
        if news is not None:
            found += list_marks(self._db, *news)
        back = self._events.next_back()
        if back is not None:
            older = list_marks(self._db, *back)
            found += older
            oldest = min((each.at for each in older), default=None)
            # A stretch without a mark is no end: only the beginning of the log is.
            self._events.note_back(oldest or since, since)
        kept = [each for each in (*self._marks.values(), *found) if each.at >= since]
        newest = sorted(kept, key=lambda each: each.event_id)[-MOST_MARKS:]
        self._marks = {each.event_id: each for each in newest}


def _before(counts: ByMinute, moment: datetime) -> Iterable[tuple[datetime, int]]:
    return [(at, count) for at, count in counts.items() if at < moment]
