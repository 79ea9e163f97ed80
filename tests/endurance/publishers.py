"""Tasks of Celery and Dramatiq while the broker closes, restarts and is away: what is told arrives.

`python -m tests.endurance.publishers --faults 10 --away 30 --rate 10`

One node of RabbitMQ of its own; beside it workers of Celery with processes and with threads, and one of
Dramatiq. Tasks are sent all the time, also while the node is away. Half of them fail, acknowledged before or
after the work; the others are retries, which succeed and have to be confirmed.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, redirect_stdout, suppress
from dataclasses import dataclass, field
from io import StringIO
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import Any
from uuid import uuid4

import pika
import pika.exceptions
from celery import Celery
from dramatiq import Message

from tests.endurance.report import tell
from tests.support.celery_workers import CeleryShop
from tests.support.private_servers import PrivateRabbitMQ, private_rabbitmq
from tests.support.project import ROOT
from tests.support.servers import pika_connection
from tests.support.waiting import let_pass, wait_until

TAKES = 1.0
AT_ONCE = 6
"""How long each task takes, and how many each worker runs at once: a fault finds that many begun."""
UNREDUCED = {"REDUCES_NOTHING": "1"}
"""A setting of Celery's, without which a worker of threads may hang after it has connected again: its
threads set the prefetch while the main thread reads the same connection (docs/celery.md)."""
CALM = 5.0
"""Seconds between two faults."""
QUIET = 60.0
"""Seconds without anything new after which what has not arrived will not."""
START = 90.0
AGAIN = 150.0
"""Seconds within which the node answers again, on a machine with much to do."""
UNIQUE_ID = "ServiceControl.Retry.UniqueMessageId"
ACKS = "ServiceControl.Retry.AcknowledgementQueue"
RETRY_ID = "Retrier.RetryId"
SAID = ("is not on the error queue:", "is not there yet,", "and is not confirmed:")


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A message for a worker. What is told of it is an empty message, or the task itself."""

    queue: str
    headers: Mapping[str, Any]
    body: bytes
    content_type: str = "application/json"


@dataclass(slots=True)
class Site:
    """The queues of one kind of worker, and what was sent to it."""

    kind: str
    make: Callable[[str, str, str, Mapping[str, Any]], Task]
    """Makes a task of a name and an id for a queue, with headers."""
    failing: Sequence[str]
    succeeding: str
    queue: str = field(default_factory=lambda: f"tasks.{uuid4().hex[:8]}")
    failed: list[str] = field(default_factory=list)
    retried: list[str] = field(default_factory=list)

    @property
    def error(self) -> str:
        """The error queue."""
        return f"{self.queue}.error"

    @property
    def acks(self) -> str:
        """The queue of confirmations."""
        return f"{self.queue}.acks"

    def make_tasks(self) -> Iterator[Task]:
        """Make tasks without end: one that fails, one that has to be confirmed."""
        for name in cycle(self.failing):
            failing, retried = str(uuid4()), str(uuid4())
            yield self.make(name, failing, self.queue, {})
            self.failed.append(failing)
            headers = {UNIQUE_ID: retried, ACKS: self.acks, RETRY_ID: retried}
            yield self.make(self.succeeding, str(uuid4()), self.queue, headers)
            self.retried.append(retried)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived:
    """What came of one kind of worker."""

    kind: str
    failures: int
    failures_missing: int
    failures_twice: int
    confirmations: int
    confirmations_missing: int
    confirmations_twice: int
    said_late: int
    """How often it was said that something could not be published at once."""


def make_celery_task(name: str, task_id: str, queue: str, headers: Mapping[str, Any]) -> Task:
    """Make a task as Celery's client does."""
    app: Any = Celery("client", set_as_current=False)
    made = app.amqp.as_task_v2(task_id, name, args=("two boxes",), kwargs={})
    return Task(
        queue=queue, headers={**made.headers, **headers}, body=json.dumps(made.body).encode()
    )


def make_dramatiq_task(name: str, task_id: str, queue: str, headers: Mapping[str, Any]) -> Task:
    """Make a message as an actor does."""
    made: Message[Any] = Message(
        queue_name=queue,
        actor_name=name,
        args=("two boxes",),
        kwargs={},
        options={},
        message_id=task_id,
    )
    return Task(queue=queue, headers=headers, body=made.encode())


class Sender:
    """Sends tasks at a rate, each until the broker has it."""

    def __init__(self, url: str, sites: Sequence[Site], rate: float) -> None:
        self._url = url
        self._sites = sites
        self._pause = 1 / rate
        self._stop = Event()
        self._thread = Thread(target=self._run, daemon=True)
        self._connection: Any = None
        self._channel: Any = None

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, when the last one is sent."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        made = [site.make_tasks() for site in self._sites]
        for tasks in cycle(made):
            task = next(tasks)
            while not self._is_sent(task):
                self._stop.wait(0.2)
            if self._stop.wait(self._pause):
                break
        for tasks in made:
            tasks.close()  # type: ignore[attr-defined]  # a generator
        self._disconnect()

    def _is_sent(self, task: Task) -> bool:
        try:
            if self._connection is None:
                self._connection = pika_connection(self._url)
                self._channel = self._connection.channel()
                self._channel.confirm_delivery()
            properties = pika.BasicProperties(
                headers=dict(task.headers),
                content_type=task.content_type,
                content_encoding="utf-8",
                delivery_mode=2,
            )
            self._channel.basic_publish("", task.queue, task.body, properties, mandatory=True)
        except (pika.exceptions.AMQPError, OSError):
            self._disconnect()
            return False
        return True

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        with suppress(Exception):
            connection.close()


@contextmanager
def celery_worker(url: str, site: Site, pool: str, folder: Path) -> Iterator[None]:
    """Run a worker of Celery."""
    environ = {"TAKES": str(TAKES)} | (UNREDUCED if pool == "threads" else {})
    shop = CeleryShop(url, site.queue, site.error, folder / site.kind, **environ)
    try:
        shop.start(pool, concurrency=AT_ONCE)
        wait_until(lambda: "ready." in shop.logged, START, "a worker of Celery")
        yield
    finally:
        with redirect_stdout(StringIO()):  # it prints its log, for tests
            shop.close()


@contextmanager
def dramatiq_worker(url: str, site: Site, folder: Path) -> Iterator[None]:
    """Run a worker of Dramatiq."""
    where = f"{url.removesuffix('//')}/%2F"
    told = {"QUEUE": site.queue, "ERROR_QUEUE": site.error, "TAKES": str(TAKES)}
    environ = {**os.environ, "BROKER": where, **told}
    command = [sys.executable, "-m", "dramatiq", "tests.support.dramatiq_app"]
    (folder / site.kind).mkdir()
    with (folder / site.kind / "log").open("ab") as log:
        worker = subprocess.Popen(  # noqa: S603 - ourselves
            [*command, "--processes", "1", "--threads", str(AT_ONCE)],
            cwd=ROOT,
            env=environ,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()


def make_sites() -> list[Site]:
    """Return one for each kind of worker."""
    celery = ("shop.reserve", "shop.reject")  # acknowledged before the work, and after it
    return [
        Site("celery-prefork", make_celery_task, celery, "shop.send"),
        Site("celery-threads", make_celery_task, celery, "shop.send"),
        Site("dramatiq", make_dramatiq_task, ("reserve",), "send"),
    ]


def have_queues(url: str, sites: Sequence[Site]) -> bool:
    """Say whether all workers have declared their queues."""
    with closing(pika_connection(url)) as connection:
        try:
            for site in sites:
                connection.channel().queue_declare(site.queue, passive=True)
        except pika.exceptions.ChannelClosedByBroker:
            return False
    return True


def do_fault(server: PrivateRabbitMQ, kind: str, away: float) -> None:
    """Close all connections, restart the node, or stop it for a while."""
    if kind == "close":
        server.control("close_all_connections", "maintenance")
        return
    server.stop()
    if kind == "away":
        let_pass(away)
    server.start(AGAIN)


def read_ids(url: str, queue: str, name: str | None) -> Counter[str]:
    """Take all that is on a queue; return how often each id came: of a header, or the message's."""
    found: Counter[str] = Counter()
    with closing(pika_connection(url)) as connection:
        channel = connection.channel()
        while True:
            method, properties, _ = channel.basic_get(queue, auto_ack=True)
            if method is None or not isinstance(properties, pika.BasicProperties):
                return found
            of_header = (properties.headers or {}).get(name) if name else None
            found[str(of_header or properties.message_id)] += 1


def collect(url: str, site: Site, failures: Counter[str], confirmed: Counter[str]) -> bool:
    """Take what has arrived; return whether that is all."""
    failures.update(read_ids(url, site.error, None))
    confirmed.update(read_ids(url, site.acks, UNIQUE_ID))
    return set(site.failed) <= set(failures) and set(site.retried) <= set(confirmed)


def wait_for_all(url: str, site: Site, folder: Path) -> Arrived:
    """Wait until all has arrived, or nothing comes any more; account for it."""
    failures: Counter[str] = Counter()
    confirmed: Counter[str] = Counter()
    arrived = -1
    while arrived < len(failures) + len(confirmed):
        arrived = len(failures) + len(confirmed)
        with suppress(AssertionError):
            wait_until(lambda: collect(url, site, failures, confirmed), QUIET)
    return Arrived(
        kind=site.kind,
        failures=len(site.failed),
        failures_missing=len(set(site.failed) - set(failures)),
        failures_twice=sum(count - 1 for count in failures.values()),
        confirmations=len(site.retried),
        confirmations_missing=len(set(site.retried) - set(confirmed)),
        confirmations_twice=sum(count - 1 for count in confirmed.values()),
        said_late=sum(map((folder / site.kind / "log").read_text().count, SAID)),
    )


def run(faults: int, away: float, rate: float, folder: Path) -> list[Arrived]:
    """Run all kinds of workers beside one node, through so many faults."""
    sites = make_sites()
    with private_rabbitmq() as server, ExitStack() as stack:
        with closing(pika_connection(server.url)) as connection:
            channel = connection.channel()
            for site in sites:
                for queue in (site.error, site.acks):
                    channel.queue_declare(queue, durable=True)
        for site, pool in zip(sites, ("prefork", "threads"), strict=False):
            stack.enter_context(celery_worker(server.url, site, pool, folder))
        stack.enter_context(dramatiq_worker(server.url, sites[-1], folder))
        wait_until(
            lambda: have_queues(server.url, sites), START, "the workers declare their queues"
        )
        sender = Sender(server.url, sites, rate)
        sender.start()
        for number, kind in zip(range(faults), cycle(("close", "restart", "away")), strict=False):
            let_pass(CALM)
            tell(f"fault {number + 1} of {faults}: {kind}")
            do_fault(server, kind, away)
        let_pass(CALM)
        sender.stop()
        return [wait_for_all(server.url, site, folder) for site in sites]


def main(arguments: Sequence[str]) -> int:
    """Run it; return 1 if something did not arrive."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faults", type=int, default=10)
    parser.add_argument("--away", type=float, default=30.0)
    parser.add_argument("--rate", type=float, default=15.0)
    parser.add_argument("--logs", type=Path, help="a folder for the logs of the workers")
    words = parser.parse_args(arguments)
    with TemporaryDirectory() as folder:
        logs = words.logs or Path(folder)
        logs.mkdir(parents=True, exist_ok=True)
        arrived = run(words.faults, words.away, words.rate, logs)
    for each in arrived:
        tell(str(each))
    missing = sum(each.failures_missing + each.confirmations_missing for each in arrived)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
