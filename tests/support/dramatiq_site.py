"""A worker of Dramatiq in this process, on queues of its own, and who looks at them from outside."""

from collections.abc import Callable
from typing import Any

import pika
from dramatiq import Actor, Worker
from dramatiq.brokers.rabbitmq import RabbitmqBroker
from dramatiq.middleware import AgeLimit, Pipelines, Retries

from retrier.integrations.dramatiq import RetrierMiddleware
from tests.support.worker_outside import RabbitMQOutside

OF_A_TASK = ("", ".DQ", ".XQ")


class DramatiqSite:
    """The queues are `queue` and Dramatiq's own two, and `queue.error` and `queue.acks`."""

    def __init__(self, url: str, queue: str, outside: RabbitMQOutside) -> None:
        self.queue = queue
        self.error = outside.declare(f"{queue}.error")
        self.acks = outside.declare(f"{queue}.acks")
        self.outside = outside
        self.told: list[tuple[str, str]] = []
        self.middleware = RetrierMiddleware(
            self.error, metrics=lambda deed, actor: self.told.append((deed, actor))
        )
        self.broker = RabbitmqBroker(
            parameters=[vars_of(url)],
            middleware=[Pipelines(), AgeLimit(), Retries(min_backoff=1, max_backoff=1)],
        )
        self.broker.add_middleware(self.middleware)
        self._worker = Worker(self.broker, worker_timeout=20, worker_threads=1)
        self._is_started = False

    def actor(self, function: Callable[..., Any], name: str, **options: Any) -> Actor[..., Any]:
        """Make a task of a function, and its queues."""
        self.broker.declare_queue(self.queue, ensure=True)
        return Actor(
            function,
            broker=self.broker,
            actor_name=name,
            queue_name=self.queue,
            priority=0,
            options={"max_retries": 0, **options},
        )

    def start(self) -> None:
        """Let the worker run."""
        self._is_started = True
        self._worker.start()

    def close_worker(self) -> None:
        """Stop the worker: what it has begun is done then."""
        if self._is_started:
            self._is_started = False
            self._worker.stop()

    def close(self) -> None:
        """Stop the worker, and delete the queues."""
        self.close_worker()
        self.broker.close()
        names = (f"{self.queue}{end}" for end in (*OF_A_TASK, ".error", ".acks"))
        for name in names:
            self.outside.delete(name)


def vars_of(url: str) -> dict[str, Any]:
    """Return a URL as the keywords of pika."""
    read = pika.URLParameters(f"{url.removesuffix('//')}/%2F" if url.endswith("//") else url)
    return {
        "host": read.host,
        "port": read.port,
        "virtual_host": read.virtual_host,
        "credentials": read.credentials,
    }
