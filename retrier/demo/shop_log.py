"""The demo's shop log: what happened to every order, compared with what the service shows."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock

from retrier.demo.client import Listed


@dataclass(frozen=True, slots=True, kw_only=True)
class Book:
    """A snapshot of the log: for each order how often it was handled and how often it failed."""

    published: frozenset[str]
    handled: Mapping[str, int]
    failed: Mapping[str, int]

    @property
    def given_up(self) -> frozenset[str]:
        """Orders that failed and have not been handled since."""
        return frozenset(order for order in self.failed if order not in self.handled)

    @property
    def missing(self) -> frozenset[str]:
        """Orders that were published, but neither handled nor failed."""
        return self.published - frozenset(self.handled) - frozenset(self.failed)

    @property
    def doubled(self) -> frozenset[str]:
        """Orders that were handled more than once."""
        return frozenset(order for order, times in self.handled.items() if times > 1)


class ShopLog:
    """Counts of orders; the worker's thread writes them, the scenario's thread reads them."""

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


def compare(book: Book, listed: Sequence[Listed]) -> tuple[str, ...]:
    """Return a sentence for every difference; none if both agree and nothing is missing."""
    return tuple(_differences(book, {item.message_id: item for item in listed}))


def _differences(book: Book, listed: dict[str, Listed]) -> Iterator[str]:
    for order in sorted(book.missing):
        yield f"{order} was published and never seen again"
    for order in sorted(book.doubled):
        yield f"{order} was handled {book.handled[order]} times"
    for order in sorted(set(book.failed) ^ set(listed)):
        yield f"{order} failed {book.failed.get(order, 0)} times, and the service knows otherwise"
    for order in sorted(set(book.failed) & set(listed)):
        yield from _compare_one(order, book, listed[order])


def _compare_one(order: str, book: Book, known: Listed) -> Iterator[str]:
    if known.attempts != book.failed[order]:
        yield f"{order} failed {book.failed[order]} times, the service counts {known.attempts}"
    wanted = "unresolved" if order in book.given_up else "resolved"
    if known.status != wanted:
        yield f"{order} should be {wanted}, and is {known.status}"
