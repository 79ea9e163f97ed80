"""A database query that may take long or hang; callers get its last result in a bounded time."""

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Generic, TypeVar

from retrier.clock import Clock
from retrier.domain.values import dataclass
from retrier.errors import DatabaseUnavailable

T = TypeVar("T")

_LONGEST_KEPT = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheTimes:
    """How long a caller waits (`wait`), and after which time a query counts as failed (`hang`).

    A result is used again for `keep`, or for `times_its_cost` times as long as the query took, a
    minute at most: so the query uses a bounded part of the database's time, however many callers.
    """

    wait: timedelta
    keep: timedelta
    hang: timedelta
    times_its_cost: int = 0


@dataclass(frozen=True, slots=True)
class _Failed:
    reason: str


class CachedQuery(Generic[T]):
    """Runs a query in a thread of its own, one at a time.

    A frozen database, unlike one that is away, gives no error for minutes. Health and metrics,
    which show the state of the database, must be answered in time all the same.
    """

    def __init__(self, find: Callable[[], T], clock: Clock, times: CacheTimes) -> None:
        self._find = find
        self._clock = clock
        self._times = times
        self._lock = threading.Lock()
        self._seen: T | _Failed = _Failed("it was not looked at yet")
        self._again_at = clock.monotonic()
        self._began: float | None = None
        self._done = threading.Event()

    def read(self) -> T:
        """Return the last result. Raises DatabaseUnavailable, also while a query hangs."""
        with self._lock:
            if self._began is None and self._clock.monotonic() >= self._again_at:
                self._start()
            done = self._done
        done.wait(self._times.wait.total_seconds())
        with self._lock:
            seen = self._answer()
        if isinstance(seen, _Failed):
            raise DatabaseUnavailable(seen.reason)
        return seen

    def _start(self) -> None:
        self._began = self._clock.monotonic()
        self._done = threading.Event()
        threading.Thread(target=self._look, name="cached query", daemon=True).start()

    def _look(self) -> None:
        try:
            seen: T | _Failed = self._find()
        except DatabaseUnavailable as error:
            seen = _Failed(str(error))
        except Exception as error:  # noqa: BLE001 - the thread's edge: queries must go on
            seen = _Failed(f"unforeseen {type(error).__name__}")
        with self._lock:
            self._end(seen)
        self._done.set()

    def _end(self, seen: T | _Failed) -> None:
        now = self._clock.monotonic()
        # A query that failed has cost the database nothing, however long it hung.
        cost = 0.0 if self._began is None or isinstance(seen, _Failed) else now - self._began
        longer = min(cost * self._times.times_its_cost, _LONGEST_KEPT)
        keep = max(self._times.keep.total_seconds(), longer)
        self._seen, self._again_at, self._began = seen, now + keep, None

    def _answer(self) -> T | _Failed:
        if self._began is None:
            return self._seen
        # A query still runs: the last result is used, unless this query takes too long.
        under_way = self._clock.monotonic() - self._began
        if under_way < self._times.hang.total_seconds() and not isinstance(self._seen, _Failed):
            return self._seen
        return _Failed(f"the database has not answered for {under_way:.0f} s")
