"""Lines about what comes in floods: of each key the first at once, then one a minute."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from threading import Lock
from typing import Generic, Protocol, Self, TypeVar

from retrier.app.log.lines import Line
from retrier.clock import Clock

_EVERY = 60.0
"""Seconds between two lines about one key."""


class _Summed(Protocol):
    """What can be added up until it is told."""

    def __add__(self, other: Self, /) -> Self: ...


Key = TypeVar("Key")
Counted = TypeVar("Counted", bound=_Summed)


class Paced(ABC, Generic[Key, Counted]):
    """Adds up per key what is new, and logs it at most once a minute.

    A flood must not fill the log as well. A key is forgotten after a minute without news.
    """

    def __init__(self, write: Callable[[Line], None], clock: Clock) -> None:
        self._write = write
        self._clock = clock
        self._lock = Lock()
        self._logged_at: dict[Key, float] = {}
        self._news: dict[Key, Counted] = {}

    def tell_due(self) -> None:
        """Log the keys that were not logged for a minute."""
        now = self._clock.monotonic()
        self._log_those(lambda logged_at: logged_at is None or now - logged_at >= _EVERY)

    def tell_all(self) -> None:
        """Log all counts, due or not: this process will count no more."""
        self._log_those(lambda _logged_at: True)

    @abstractmethod
    def _describe(self, key: Key, counted: Counted) -> Line:
        """Put what is new of a key into a line."""

    def _count(self, news: Iterable[tuple[Key, Counted]]) -> None:
        with self._lock:
            for key, counted in news:
                before = self._news.get(key)
                self._news[key] = counted if before is None else before + counted

    def _log_those(self, wanted: Callable[[float | None], bool]) -> None:
        # Locked: any thread that emits an event may be here.
        with self._lock:
            keys = self._logged_at | self._news
            due = [key for key in keys if wanted(self._logged_at.get(key))]
            lines = [line for key in due for line in self._end(key)]
        for line in lines:
            self._write(line)

    def _end(self, key: Key) -> Iterator[Line]:
        """Yield the line of a key and restart its count; forget it if nothing is new."""
        self._logged_at.pop(key, None)
        if key in self._news:
            self._logged_at[key] = self._clock.monotonic()
            yield self._describe(key, self._news.pop(key))
