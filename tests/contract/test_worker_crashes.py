"""Worker processes that die, on every kind of queue."""

import pytest

from tests.contract.worker_crash_suite import WorkerCrashSuite, put
from tests.contract.worker_fixtures import EmbeddedWorkers, Processes, RabbitMQWorkers
from tests.support.waiting import wait_until
from tests.support.worker_outside import Outside, take_within


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


class TestOnTheEmbeddedBroker(EmbeddedWorkers, Republished):
    """On queues in a file."""
