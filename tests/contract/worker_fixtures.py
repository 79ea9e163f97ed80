"""What every test of the worker suites works with; a kind of broker fills it in."""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any
from uuid import uuid4

import pytest

from retrier.worker import Message, Worker
from tests.support.waiting import wait_until
from tests.support.worker_outside import (
    DEADLINE,
    EmbeddedOutside,
    Outside,
    RabbitMQOutside,
    RedisOutside,
)
from tests.support.worker_process import WorkerProcesses

RETRY = {
    "ServiceControl.Retry.UniqueMessageId": "u-1",
    "Retrier.RetryId": "r-1",
}


@dataclass
class Handled:
    """What a handler was called with."""

    ids: list[str | None] = field(default_factory=list)
    lock: Lock = field(default_factory=Lock)

    def note(self, message: Message) -> int:
        """Note a call; return the how manieth it is of this message."""
        with self.lock:
            self.ids.append(message.id)
            return self.ids.count(message.id)


@dataclass(slots=True)
class Running:
    """A worker in a thread of this process."""

    worker: Worker
    thread: Thread
    stop: Event
    handled: Handled

    def end(self) -> None:
        """Stop it, and wait until it has."""
        self.stop.set()
        self.thread.join(DEADLINE)
        assert not self.thread.is_alive()

    def wait_until_it_waits(self, why: str) -> None:
        """Wait until it takes nothing for this reason."""
        wait_until(lambda: why in (self.worker.condition.why or ""), DEADLINE, why)


Handle = Callable[[Any, Message, int], object]
Start = Callable[..., Running]
Processes = Callable[..., WorkerProcesses]


def handle_well(_content: object, _message: Message, _time: int) -> None:
    """Handle a message."""


class WorkerFixtures:
    """Queues, a plain client, and workers in threads or in processes."""

    @pytest.fixture
    def url(self) -> str:
        """Give the broker's URL."""
        raise NotImplementedError

    @pytest.fixture
    def outside(self, url: str) -> Iterator[Outside]:
        """Give the plain client."""
        raise NotImplementedError

    @pytest.fixture
    def orders(self, outside: Outside) -> Iterator[str]:
        """Give the queue that the worker consumes. The others have names that begin with its own."""
        name = f"test.orders.{uuid4().hex[:12]}"
        outside.declare(name)
        outside.declare(f"{name}.error")
        outside.declare(f"{name}.results")
        yield name
        for queue in (name, f"{name}.error", f"{name}.results", f"{name}.acks"):
            outside.delete(queue)

    @pytest.fixture
    def start(self, url: str, orders: str, caplog: pytest.LogCaptureFixture) -> Iterator[Start]:
        """Start workers in threads. The handler is called with content, message, and which time."""
        caplog.set_level(logging.DEBUG)
        with ExitStack() as stack:

            def run(handle: Handle = handle_well, model: Any = None, **options: Any) -> Running:
                handled = Handled()
                outputs = {"error_queue": f"{orders}.error", "output_queue": f"{orders}.results"}
                queue = options.pop("queue", orders)
                where = options.pop("url", url)
                worker = Worker(where, "shop", **{**outputs, "transient_delay": 0.2, **options})

                @worker.handler(queue, model=model)
                def _order(content: object, message: Message) -> object:
                    return handle(content, message, handled.note(message))

                stop = Event()
                thread = Thread(target=worker.run, args=(stop,))
                running = Running(worker, thread, stop, handled)
                thread.start()
                stack.callback(running.end)
                return running

            yield run

    @pytest.fixture
    def processes(self, url: str, orders: str, tmp_path: Path) -> Iterator[Processes]:
        """Give workers in processes of their own."""
        with ExitStack() as stack:

            def make(**options: Any) -> WorkerProcesses:
                given = {"error_queue": f"{orders}.error", **options}
                made = WorkerProcesses(url, orders, tmp_path, given)
                stack.callback(made.close)
                return made

            yield make


class RabbitMQWorkers(WorkerFixtures):
    """On queues of one kind."""

    kind: str

    @pytest.fixture
    def url(self, amqp_url: str) -> str:
        return amqp_url

    @pytest.fixture
    def outside(self, url: str) -> Iterator[Outside]:
        outside = RabbitMQOutside(url, self.kind)
        yield outside
        outside.close()


class EmbeddedWorkers(WorkerFixtures):
    """On the embedded broker."""

    @pytest.fixture
    def url(self, tmp_path: Path) -> str:
        return f"embedded:///{tmp_path}/broker.db"

    @pytest.fixture
    def outside(self, url: str) -> Iterator[Outside]:
        outside = EmbeddedOutside(url)
        yield outside
        outside.close()


class RedisWorkers(WorkerFixtures):
    """On Redis."""

    @pytest.fixture
    def url(self, redis_url: str) -> str:
        return redis_url

    @pytest.fixture
    def outside(self, url: str) -> Iterator[Outside]:
        outside = RedisOutside(url)
        yield outside
        outside.close()


def retry_headers(orders: str, **more: str) -> Mapping[str, str]:
    """Return the headers of a retry that waits for its confirmation."""
    return {**RETRY, "ServiceControl.Retry.AcknowledgementQueue": f"{orders}.acks", **more}
