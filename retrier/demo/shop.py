"""The shop: the worker that handles its orders, its log and its counts; and the operator's client."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from threading import Event, Lock, Thread

import httpx

from retrier.demo.orders import Defect, Order, handle
from retrier.domain import headers
from retrier.domain.text import count_of
from retrier.domain.values import dataclass
from retrier.domain.wire import Confirmed, Outgoing
from retrier.errors import BrokerUnavailable, RetrierError
from retrier.private_files import make_private_file
from retrier.transport.embedded import EmbeddedTransport
from retrier.worker import Worker

_POLL = 0.1
_PAGE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedGroup:
    """One failure group as the API shows it."""

    group_id: str
    title: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedFailure:
    """One failed message as the API lists it."""

    message_id: str
    status: str
    attempts: int


def unresolved(group: Mapping[str, int]) -> int:
    """Return how many messages wait; the `count` of a group that is over is what its retry was about."""
    return group["manual"] + group["scheduled"] + group["dead"]


class Client:
    """Reads lists, asks for retries, and waits for conditions, for a bounded time."""

    def __init__(self, url: str, stop: Event) -> None:
        self._http = httpx.Client(base_url=url, timeout=10, headers={"X-Retrier-User": "demo"})
        self._stop = stop

    def list_groups(self) -> tuple[ListedGroup, ...]:
        """Return the groups by cause that have unresolved messages, the largest first."""
        found = self._http.get("/api/recoverability/groups").json()
        groups = (
            ListedGroup(group_id=g["id"], title=g["title"], count=unresolved(g)) for g in found
        )
        return tuple(sorted((each for each in groups if each.count), key=lambda each: -each.count))

    def retry_group(self, group_id: str) -> str:
        """Ask for a retry of a group; return the operation's id."""
        answer = self._http.post(f"/api/recoverability/groups/{group_id}/errors/retry")
        return str(answer.json()["operation_id"])

    def is_complete(self, operation_id: str) -> bool:
        """Say whether an operation is complete."""
        return bool(
            self._http.get(f"/api/operations/{operation_id}").json()["state"] == "completed"
        )

    def list_messages(self) -> tuple[ListedFailure, ...]:
        """Return all failed messages, in any status."""
        found: list[ListedFailure] = []
        for page in range(1, 1000):
            answer = self._http.get("/api/errors", params={"page": page, "per_page": _PAGE})
            found += [_listed(item) for item in answer.json()]
            if len(found) >= int(answer.headers["Total-Count"]):
                break
        return tuple(found)

    def wait_for(self, what: str, is_so: Callable[[], bool], seconds: float) -> None:
        """Wait until `is_so` holds. Raises RetrierError if it takes too long or is interrupted."""
        for _ in range(int(seconds / _POLL)):
            if is_so():
                return
            if self._stop.wait(_POLL):
                raise RetrierError("interrupted")
        raise RetrierError(f"not within {seconds:g} s: {what}")

    def close(self) -> None:
        """Close the connections."""
        self._http.close()


def find_url(log: Path) -> str | None:
    """Return the URL at which the service listens, from its log; None before it listens."""
    for line in log.read_text().splitlines():
        if '"api.listening"' in line:
            fields = json.loads(line)
            return f"http://{fields['host']}:{fields['port']}"
    return None


def is_ready(url: str) -> bool:
    """Say whether all parts of the service are ready."""
    return httpx.get(f"{url}/health/ready", timeout=10).is_success


def _listed(item: dict[str, object]) -> ListedFailure:
    return ListedFailure(
        message_id=str(item["message_id"]),
        status=str(item["status"]),
        attempts=int(str(item["number_of_processing_attempts"])),
    )


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


def compare(book: Book, listed: Sequence[ListedFailure]) -> tuple[str, ...]:
    """Return a sentence for every difference; none if both agree and nothing is missing."""
    return tuple(_differences(book, {item.message_id: item for item in listed}))


def _differences(book: Book, listed: dict[str, ListedFailure]) -> Iterator[str]:
    for order in sorted(book.missing):
        yield f"{order} was published and never seen again"
    for order in sorted(book.doubled):
        yield f"{order} was handled {count_of(book.handled[order], 'time')}"
    for order in sorted(set(book.failed) ^ set(listed)):
        yield f"{order} failed {count_of(book.failed.get(order, 0), 'time')}, and the service knows otherwise"
    for order in sorted(set(book.failed) & set(listed)):
        yield from _compare_one(order, book, listed[order])


def _compare_one(order: str, book: Book, known: ListedFailure) -> Iterator[str]:
    if known.attempts != book.failed[order]:
        yield f"{order} failed {count_of(book.failed[order], 'time')}, the service counts {known.attempts}"
    wanted = "unresolved" if order in book.given_up else "resolved"
    if known.status != wanted:
        yield f"{order} should be {wanted}, and is {known.status}"


_PAUSE = 0.3
"""Seconds between two looks at the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShopCounts:
    """How many orders there are, and where they are, as the shop itself counts them."""

    published: int = 0
    handled: int = 0
    given_up: int = 0
    missing: int = 0
    doubled: int = 0


def count(book: Book) -> ShopCounts:
    """Return the counts of a book. What is still on the queue is missing for a moment."""
    return ShopCounts(
        published=len(book.published),
        handled=len(book.handled),
        given_up=len(book.given_up),
        missing=len(book.missing),
        doubled=len(book.doubled),
    )


def write_counts(file: Path, counts: ShopCounts) -> None:
    """Write them: whoever reads meanwhile finds the old ones or the new ones, never a half."""
    new = file.with_suffix(".new")
    make_private_file(new)
    new.write_text(json.dumps(asdict(counts)))
    new.replace(file)


def read_counts(file: Path) -> ShopCounts:
    """Return what was written last; zeros if nothing was."""
    return ShopCounts(**json.loads(file.read_text())) if file.exists() else ShopCounts()


@contextmanager
def counting(log: ShopLog, file: Path) -> Iterator[None]:
    """Write the counts of a log into a file again and again."""
    stop = Event()

    def write() -> None:
        last = None
        while True:
            ended = stop.wait(_PAUSE)
            now = count(log.read())
            if now != last:
                write_counts(file, now)
                last = now
            if ended:
                return

    thread = Thread(target=write, name="counts", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(5)


ORDERS = "orders"
ERRORS = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shop:
    """Producer and worker. `broken` returns the causes that are not repaired yet."""

    broker_url: str
    log: ShopLog
    broken: Callable[[], AbstractSet[Defect]]

    def open(self) -> None:
        """Declare the shop's queues."""
        queues = EmbeddedTransport(self.broker_url).queues()
        queues.declare_error_queue(ORDERS)
        queues.declare_error_queue(ERRORS)
        queues.close()

    def publish(self, orders: tuple[Order, ...]) -> None:
        """Put orders on the queue. Raises BrokerUnavailable."""
        publisher = EmbeddedTransport(self.broker_url).publisher()
        messages = [_make_message(order) for order in orders]
        for outcome in publisher.publish(messages, lambda: None):
            if not isinstance(outcome, Confirmed):
                raise BrokerUnavailable(f"the shop's message was not taken: {outcome.reason}")
        for order in orders:
            self.log.count_published(order.message_id)
        publisher.close()

    def work(self, stop: Event) -> None:
        """Handle orders until `stop` is set; those that fail go to the error queue."""
        worker = Worker(self.broker_url, "shop", error_queue=ERRORS)

        @worker.handler(ORDERS, model=Order)
        def handle_order(order: Order) -> None:
            try:
                handle(order, self.broken())
            except Exception:
                self.log.count_failed(order.message_id)
                raise
            self.log.count_handled(order.message_id)

        worker.run(stop)


def _make_message(order: Order) -> Outgoing:
    kept: Mapping[str, object] = {
        "content-type": "application/json",
        "headers": {headers.MESSAGE_TYPE: f"{order.kind}-order"},
        "properties": {"message_id": order.message_id, "delivery_mode": 2},
    }
    return Outgoing(queue=ORDERS, raw=json.dumps(kept).encode(), body=order.to_body())
