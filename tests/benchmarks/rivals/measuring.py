"""All rivals of a bulk retry, one after the other, on the queues of one kind."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from time import process_time

from tests.benchmarks.options import BODIES, Options
from tests.benchmarks.place import Place
from tests.benchmarks.queues import Queues, opened_queues
from tests.benchmarks.rivals.movers import move_in_two_passes, move_one_by_one, move_pipelined
from tests.benchmarks.rivals.shovel import shovel
from tests.benchmarks.rivals.storers import store_one_by_one, store_raw
from tests.benchmarks.targets import (
    ONE_BY_ONE,
    ONE_BY_ONE_STORING,
    PIPELINED,
    RAW_STORING,
    SHOVEL,
)
from tests.support.databases import temporary_postgres
from tests.support.servers import psycopg_url

WINDOWS = (200, 500)


@dataclass(slots=True)
class Rivals:
    """Messages per second of each, by its name."""

    movers: dict[str, float] = field(default_factory=dict)
    two_passes: dict[str, float] = field(default_factory=dict)
    """By pass: staging, forwarding, both."""
    storers: dict[str, float] = field(default_factory=dict)
    cpu: dict[str, float] = field(default_factory=dict)
    """CPU seconds of the mover alone, for 1000 messages."""


def measure_rivals(options: Options, place: Place, kind: str, body: str) -> Rivals:
    """Let every rival do its work on the same messages."""
    rivals = Rivals()
    with opened_queues(place.amqp_url, kind) as queues:
        first, second = queues.declare("orders"), queues.declare("orders")
        count = options.count(body)
        queues.fill(first, second, count, BODIES[body])
        there_and_back = Shuttle(queues, first, second, count)
        for name, rate, cpu in there_and_back.measure(place, options.slow):
            rivals.movers[name] = rate
            rivals.cpu |= {} if cpu is None else {name: cpu}
        rivals.two_passes = _measure_passes(queues, count, BODIES[body])
        if "a" in options.figures:
            source, few = there_and_back.source, min(options.slow, count // 2)
            rivals.storers = _measure_storers(place, source, count, few)
    return rivals


@dataclass(slots=True)
class Shuttle:
    """Moves the same messages to and fro between two queues: `source` is where they are."""

    queues: Queues
    source: str
    target: str
    count: int

    def measure(self, place: Place, slow: int) -> Iterator[tuple[str, float, float | None]]:
        """Yield each rival, its messages per second, and its CPU seconds for 1000."""
        url, count = place.amqp_url, self.count
        for window in WINDOWS:
            cpu = process_time()
            seconds = move_pipelined(url, self.source, self.target, count, window)
            cpu = 1000 * (process_time() - cpu) / count
            yield PIPELINED.format(window=window), count / seconds, cpu
            self._arrive()
        if place.shovels and place.node is not None:
            rate = shovel(place.node, self.queues, self.source, self.target, count)
            yield SHOVEL, rate, None
            self._arrive()
        few, cpu = min(slow, count), process_time()
        seconds = move_one_by_one(url, self.source, self.target, few)
        yield ONE_BY_ONE, few / seconds, 1000 * (process_time() - cpu) / few
        # The few are brought back, so that all of them are in one place.
        move_pipelined(url, self.target, self.source, few, WINDOWS[0])
        self.queues.wait_depth(self.source, count, 60)

    def _arrive(self) -> None:
        self.queues.wait_depth(self.target, self.count, 60)
        self.source, self.target = self.target, self.source


def _measure_passes(queues: Queues, count: int, size: int) -> dict[str, float]:
    staging, target = queues.declare("staging"), queues.declare("orders")
    spent = move_in_two_passes(queues.url, staging, target, count, size, WINDOWS[-1])
    queues.wait_depth(target, count, 60)
    queues.purge(target)
    return {
        "staging": count / spent.staging,
        "forwarding": count / spent.forwarding,
        "both": count / (spent.staging + spent.forwarding),
    }


def _measure_storers(place: Place, source: str, count: int, few: int) -> dict[str, float]:
    with temporary_postgres(place.postgres_url) as url:
        conninfo = psycopg_url(url)
        slow = store_one_by_one(place.amqp_url, conninfo, source, few)
        rest = count - few
        fast = store_raw(place.amqp_url, conninfo, source, rest)
    return {ONE_BY_ONE_STORING: few / slow, RAW_STORING: rest / fast}
