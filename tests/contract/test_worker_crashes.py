"""Worker processes that die, on every kind of queue."""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from retrier.transport.redis.line import Address
from retrier.transport.redis.transport import RedisTransport
from tests.contract.worker_crash_suite import WorkerCrashSuite, put
from tests.contract.worker_fixtures import EmbeddedWorkers, Processes, RabbitMQWorkers, RedisWorkers
from tests.support.waiting import wait_until
from tests.support.worker_outside import Outside, RedisOutside, take_within
from tests.support.worker_process import WorkerProcesses


def put_of_a_stream(outside: Outside, queue: str, goes_on: Path) -> None:
    """Put a message of a stream whose handler ends when there is this file."""
    order = {"id": "first", "do": "slow", "after": str(goes_on), "seconds": 0}
    outside.put(queue, json.dumps(order).encode(), {"Retrier.Stream": "s-1"}, message_id="first")


def stop_while_it_handles(workers: WorkerProcesses) -> None:
    """Start a worker, and tell it to stop once its handler has begun."""
    process = workers.start()
    wait_until(lambda: workers.told("begun"), 20)
    os.kill(process.pid or 0, signal.SIGTERM)
    process.join(20)
    assert process.exitcode == 0


class Republished(WorkerCrashSuite):
    """Where the broker does not count, the worker writes the count into the message."""

    def test_a_crash_is_counted_in_a_header_of_a_new_message(
        self, outside: Outside, orders: str, processes: Processes
    ) -> None:
        put(outside, orders, "poison", do="die")
        workers = processes()
        first = workers.start()
        wait_until(lambda: not first.is_alive(), 20)

        workers.run_until(lambda: workers.told("begun") == ["poison"] * 3)
        wait_until(lambda: outside.count(orders), 20)

        assert take_within(outside, orders).headers["x-caf-worker-retry"] == "2"

    def test_a_stop_counts_no_message_of_a_stream_that_cannot_keep_its_place(
        self, outside: Outside, orders: str, processes: Processes, tmp_path: Path
    ) -> None:
        goes_on = tmp_path / "goes on"
        put_of_a_stream(outside, orders, goes_on)
        workers = processes(hold_streams=True, stop_timeout=0.3, crash_limit=0)
        stop_while_it_handles(workers)
        wait_until(lambda: outside.count(orders) == 1, 20)

        goes_on.touch()
        workers.run_until(lambda: workers.told("done") == ["first"])

        assert "crash" not in workers.logged
        assert outside.count(f"{orders}.error") == 0


@pytest.mark.rabbitmq
class TestOnClassicQueues(RabbitMQWorkers, Republished):
    kind = "classic"


@pytest.mark.rabbitmq
class TestOnQuorumQueues(RabbitMQWorkers, WorkerCrashSuite):
    kind = "quorum"

    def test_a_crash_is_counted_by_the_queue_and_the_message_keeps_its_place(
        self, outside: Outside, orders: str, processes: Processes
    ) -> None:
        put(outside, orders, "poison", do="die")
        put(outside, orders, "behind")
        workers = processes(crash_limit=2)

        workers.run_until(lambda: "behind" in workers.told("done"))

        assert workers.told("begun") == ["poison"] * 3 + ["behind"]
        assert workers.logged.count("crash") == 0

    def test_a_message_of_a_stream_keeps_its_place_at_a_stop_and_is_not_counted(
        self, outside: Outside, orders: str, processes: Processes, tmp_path: Path
    ) -> None:
        goes_on = tmp_path / "goes on"
        put_of_a_stream(outside, orders, goes_on)
        put(outside, orders, "behind")
        workers = processes(hold_streams=True, stop_timeout=0.3, crash_limit=0)
        stop_while_it_handles(workers)
        wait_until(lambda: outside.count(orders) == 2, 20)

        goes_on.touch()
        workers.run_until(lambda: "behind" in workers.told("done"))

        assert workers.told("done") == ["first", "behind"]
        assert "keeps its place" in workers.logged
        assert workers.told("counted") == []

    def test_order_is_kept_over_stops_and_kills_where_one_message_is_in_hand(
        self, outside: Outside, orders: str, processes: Processes
    ) -> None:
        names = [f"m-{number:02}" for number in range(40)]
        for name in names:
            put(outside, orders, name, do="slow", seconds=0.005)
        workers = processes()

        for end in (signal.SIGTERM, signal.SIGKILL) * 2:
            before = len(workers.told("begun"))
            process = workers.start()
            wait_until(lambda n=before: len(workers.told("begun")) > 4 + n, 20)
            os.kill(process.pid or 0, end)
            process.join(20)
        workers.run_until(lambda: len(set(workers.told("done"))) == len(names))

        assert workers.told("begun") == sorted(workers.told("begun"))
        assert set(workers.told("done")) == set(names)

    def test_stops_with_streams_held_count_nothing_and_keep_the_order(
        self, outside: Outside, orders: str, processes: Processes
    ) -> None:
        names = [f"m-{number}" for number in range(40)]
        for name in names:
            body = json.dumps({"id": name, "do": "slow", "seconds": 0.005}).encode()
            outside.put(orders, body, {"Retrier.Stream": "s"}, message_id=name)
        workers = processes(hold_streams=True, prefetch=50, crash_limit=0)

        for stop in range(3):
            process = workers.start()
            wait_until(lambda n=stop: len(workers.told("done")) > 8 * n, 20)
            os.kill(process.pid or 0, signal.SIGTERM)
            process.join(20)
        workers.run_until(lambda: len(workers.told("done")) == len(names))

        assert workers.told("done") == names
        assert workers.told("counted") == []
        assert outside.count(f"{orders}.error") == 0


class Looking(RedisOutside):
    """Counts as Retrier does, which gives back what a worker had in hand that is gone.

    Nobody else does: without a worker and without a look it stays in the hash of its consumer.
    """

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._transport = RedisTransport(Address(url=url, options={}))

    def count(self, queue: str) -> int:
        with closing(self._transport.queues()) as queues:
            return queues.depth(queue) or 0


@pytest.mark.kills
class TestOnRedis(RedisWorkers, Republished):
    """What a killed worker had in hand comes back as soon as another one looks."""

    @pytest.fixture
    def outside(self, url: str) -> Iterator[Outside]:
        with closing(Looking(url)) as outside:
            yield outside


class TestOnTheEmbeddedBroker(EmbeddedWorkers, Republished):
    """On queues in a file."""

    @pytest.mark.parametrize("threads", [1, 2])
    @pytest.mark.parametrize("do", ["fork", "stop child"])
    def test_a_child_of_a_handler_is_no_worker(
        self, outside: Outside, orders: str, processes: Processes, do: str, threads: int
    ) -> None:
        put(outside, orders, "parent", do=do)
        put(outside, orders, "behind")
        workers = processes(threads=threads)

        workers.run_until(lambda: set(workers.told("done")) == {"parent", "behind"})

        assert sorted(workers.told("begun")) == ["behind", "parent"]
        assert outside.count(f"{orders}.error") == 0
