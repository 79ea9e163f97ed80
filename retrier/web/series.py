"""The series of the plot, kept by minute for a day: failures, retries, confirmations."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from retrier.store.engine.database import Database
from retrier.store.queries.page_series import (
    ByMinute,
    count_attempts,
    count_retries,
    find_last_attempt,
)
from retrier.web.snapshot import Minute

KEPT = timedelta(hours=24)
BACK_AT_ONCE = 20_000
"""Older failures that one look counts: no index knows their times."""


class Series:
    """What is known of each minute. A look at failures reads each of them once."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._failed: dict[datetime, int] = {}
        self._first: int | None = None
        self._last = 0
        self._sent: ByMinute = {}
        self._confirmed: ByMinute = {}

    def look(self, now: datetime) -> None:
        """Count what happened since the last look, and some of what happened before the first.

        Raises DatabaseUnavailable.
        """
        since = now - KEPT
        self._count_new()
        self._count_back(since)
        retries = count_retries(self._db, since)
        self._sent, self._confirmed = retries.sent, retries.confirmed
        self._failed = {at: count for at, count in self._failed.items() if at >= since}

    def minutes(self) -> Sequence[Minute]:
        """Return the minutes in which something happened, the oldest first."""
        failed, sent, confirmed = self._failed, self._sent, self._confirmed
        return [
            Minute(
                at=at,
                failed=failed.get(at, 0),
                sent=sent.get(at, 0),
                confirmed=confirmed.get(at, 0),
            )
            for at in sorted({*failed, *sent, *confirmed})
        ]

    def count_new_failures(self) -> None:
        """Count the failures since the last look only. Raises DatabaseUnavailable."""
        if self._first is not None:
            self._count_new()

    def _count_new(self) -> None:
        last = find_last_attempt(self._db)
        if self._first is None:
            self._first = self._last = last
        elif last > self._last:
            self._add(count_attempts(self._db, self._last, last))
            self._last = last

    def _count_back(self, since: datetime) -> None:
        if not self._first:
            return
        after = max(0, self._first - BACK_AT_ONCE)
        found = count_attempts(self._db, after, self._first)
        self._add(found)
        # Behind the first failure that is too old, and behind a gap, nothing younger is expected.
        over = not found or min(found) < since
        self._first = 0 if over else after

    def _add(self, found: Mapping[datetime, int]) -> None:
        for at, count in found.items():
            self._failed[at] = self._failed.get(at, 0) + count
