"""How fast a queue is emptied by a worker, or by a bare consumer (Kombu's, pika's) that only acknowledges.

`python -m tests.support.worker_speed worker|bare|pika URL QUEUE COUNT PREFETCH`; prints one line of JSON: the
messages per second, the memory in KiB after each tenth of them, and the processor time of one message, which
other programs of a busy machine change least.
"""

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic, process_time
from typing import Any

import kombu

from retrier.worker import Worker
from tests.support.servers import pika_connection

KIBIBYTE = 1024
PAGE = 4096


def memory() -> int:
    """Return the memory of this process that is in RAM, in KiB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE // KIBIBYTE


class Counting:
    """Counts messages; the time runs from the first one to the last, without the worker's stop."""

    def __init__(self, count: int) -> None:
        self._left = count
        self._count = count
        self._began = self._ended = self._worked = self._done = 0.0
        self._memory: list[int] = []

    def count_one(self) -> bool:
        """Count a message; return whether it was the last one."""
        if self._left == self._count:
            self._began, self._worked = monotonic(), process_time()
        self._left -= 1
        if self._left % max(1, self._count // 10) == 0:
            self._memory.append(memory())
        self._ended, self._done = monotonic(), process_time()
        return self._left == 0

    def tell(self) -> None:
        """Print what was measured."""
        rate = self._count / (self._ended - self._began)
        work = (self._done - self._worked) / self._count * 1e6
        told = {"rate": rate, "memory": self._memory, "microseconds": work}
        sys.stdout.write(json.dumps(told) + "\n")


def run_worker(url: str, queue: str, counting: Counting, prefetch: int) -> None:
    """Empty the queue with a worker whose handler does nothing."""
    worker = Worker(url, error_queue=f"{queue}.error", prefetch=prefetch)

    @worker.handler(queue)
    def handle(_body: bytes) -> None:
        if counting.count_one():
            os.kill(os.getpid(), signal.SIGTERM)

    worker.run()


def run_bare(url: str, queue: str, counting: Counting, prefetch: int) -> None:
    """Empty the queue with a consumer of Kombu's."""
    done: list[bool] = []

    def take(_body: Any, message: Any) -> None:
        message.ack()
        if counting.count_one():
            done.append(True)

    plain: Any = kombu
    with plain.Connection(url) as connection:
        queues = [plain.Queue(queue, no_declare=True)]
        with plain.Consumer(connection, queues, callbacks=[take], prefetch_count=prefetch):
            while not done:
                connection.drain_events(timeout=10)


def run_pika(url: str, queue: str, counting: Counting, prefetch: int) -> None:
    """Empty the queue with a consumer of pika's, as its documentation writes one."""
    connection = pika_connection(url)
    channel = connection.channel()
    channel.basic_qos(prefetch_count=prefetch)

    def take(channel: Any, method: Any, _properties: Any, _body: bytes) -> None:
        channel.basic_ack(method.delivery_tag)
        if counting.count_one():
            channel.stop_consuming()

    channel.basic_consume(queue, take)
    channel.start_consuming()
    connection.close()


WAYS: dict[str, Callable[[str, str, Counting, int], None]] = {
    "worker": run_worker,
    "bare": run_bare,
    "pika": run_pika,
}

if __name__ == "__main__":
    way, at, name, messages, most = sys.argv[1:]
    counted = Counting(int(messages))
    WAYS[way](at, name, counted, int(most))
    counted.tell()
