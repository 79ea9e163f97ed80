"""The shop's own book: what its producer and its worker did, counted by themselves."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock


@dataclass(frozen=True, slots=True, kw_only=True)
class Book:
    """One look at the tally: per order how often it was handled and how often it failed."""

    published: frozenset[str]
    handled: Mapping[str, int]
    failed: Mapping[str, int]

    @property
    def given_up(self) -> frozenset[str]:
        """Orders that failed and have not been handled since."""
        return frozenset(order for order in self.failed if order not in self.handled)

    @property
    def missing(self) -> frozenset[str]:
        """Orders of which nothing was ever seen."""
        return self.published - frozenset(self.handled) - frozenset(self.failed)

    @property
    def doubled(self) -> frozenset[str]:
        """Orders that were handled more than once."""
        return frozenset(order for order, times in self.handled.items() if times > 1)


class Tally:
    """Counts; written by the worker's thread and read by the story's."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._published: set[str] = set()
        self._handled: Counter[str] = Counter()
        self._failed: Counter[str] = Counter()

    def count_published(self, message_id: str) -> None:
        """Note an order that was put on the queue."""
        with self._lock:
            self._published.add(message_id)

    def count_handled(self, message_id: str) -> None:
        """Note an order that was handled."""
        with self._lock:
            self._handled[message_id] += 1

    def count_failed(self, message_id: str) -> None:
        """Note an order that failed."""
        with self._lock:
            self._failed[message_id] += 1

    def read(self) -> Book:
        """Return what is counted so far."""
        with self._lock:
            return Book(
                published=frozenset(self._published),
                handled=dict(self._handled),
                failed=dict(self._failed),
            )
