"""Where an endurance run takes place: its queues and database, its processes, and what is off."""

import random
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol
from uuid import uuid4

import psycopg

from tests.endurance.far_ends import Allowance, Consumer, Producer
from tests.endurance.report import tell
from tests.support.databases import open_upgraded, temporary_postgres
from tests.support.forked_service import ForkingHost
from tests.support.project import ROOT
from tests.support.servers import pika_connection, psycopg_url
from tests.support.service import Host, Service
from tests.support.shop import Shop

LEADER = "SELECT pid FROM processor_lease"


class FarEnd(Protocol):
    """Who puts messages on queues, or takes them off, until told to stop."""

    def run(self, stop: threading.Event) -> None:
        """Work until told to stop."""


@dataclass(slots=True, kw_only=True)
class Grounds:
    """RabbitMQ, a PostgreSQL database, and processes that are killed. The dice are the run's own."""

    amqp_url: str
    shop: Shop
    host: Host
    conn: psycopg.Connection[Any]
    dice: random.Random
    kills: int = 0
    problems: list[str] = field(default_factory=list)

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Look into the database."""
        return self.conn.execute(sql).fetchall()

    def count(self, sql: str) -> int:
        """Return the number that a query answers with."""
        return int(self.query(sql)[0][0])

    def depth(self) -> int:
        """Return how many messages have failed, or came back, and nobody has taken yet."""
        # A connection that is used once in minutes would be closed for want of heartbeats.
        with closing(pika_connection(self.amqp_url)) as connection:
            channel = connection.channel()
            queues = [self.shop.error, self.shop.orders]
            found = [channel.queue_declare(each, passive=True) for each in queues]
            return sum(each.method.message_count for each in found)

    def kill_one(self, alive: list[Service]) -> None:
        """Kill the processor, or another one in one case of three, and start another instead."""
        leader = [row[0] for row in self.query(LEADER)]
        chosen = [each for each in alive if each.pid in leader] or alive
        service = self.dice.choice(alive if self.dice.random() < 1 / 3 else chosen)
        service.kill()
        self.kills += 1
        alive[alive.index(service)] = self.host.start()

    def stop_all(self) -> None:
        """Stop what still runs, as an operator would."""
        for service in self.host.services:
            if service.process.poll() is None:
                # One that has only begun to start does not listen to the signal yet.
                service.wait_ready()
                self.expect("is the exit code of a process that was told to stop", service.stop())

    def verify(self, folder: Path = ROOT) -> int:
        """Return the exit code of `retrier verify` of a folder; what it finds off is printed."""
        command = [sys.executable, "-m", "retrier", "verify", "--config", str(self.host.config)]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)  # noqa: S603 - ourselves
        if done.returncode:
            tell(done.stdout, done.stderr)
        return done.returncode

    def expect(self, words: str, number: int) -> None:
        """Note a number that has to be 0."""
        if number:
            self.problems.append(f"{number} {words}")

    def new_dice(self) -> random.Random:
        """Return dice of their own for another thread, else a run could not be repeated."""
        return random.Random(self.dice.random())  # noqa: S311 - no secret

    def producer(self, count: int, allowance: Allowance) -> Producer:
        """Return who lets messages fail."""
        dice = self.new_dice()
        return Producer(
            url=self.amqp_url, shop=self.shop, count=count, allowance=allowance, dice=dice
        )

    def consumer(self) -> Consumer:
        """Return who gets back what is retried."""
        return Consumer(url=self.amqp_url, shop=self.shop, dice=self.new_dice())


@contextmanager
def at_work(*far_ends: FarEnd) -> Iterator[None]:
    """Let them work, each in a thread of its own."""
    stop = threading.Event()
    threads = [threading.Thread(target=each.run, args=[stop], daemon=True) for each in far_ends]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join(10)


@contextmanager
def opened_grounds(
    purpose: str,
    servers: tuple[str, str],
    seed: int,
    settings: Mapping[str, Mapping[str, object]],
    queue_type: str = "quorum",
    *,
    empty: bool = False,
) -> Iterator[Grounds]:
    """Give new queues and a new database on RabbitMQ and PostgreSQL; nothing runs yet.

    `empty`: another version than this one makes the tables.
    """
    amqp_url, postgres_url = servers
    name = f"test.{purpose}.{uuid4().hex[:12]}"
    with ExitStack() as stack:
        with closing(pika_connection(amqp_url)) as connection:
            shop = Shop(connection.channel(), lambda queue: f"{name}.{queue}", queue_type)
        stack.callback(
            _delete, amqp_url, [shop.error, shop.orders, shop.payments, f"{name}.staging"]
        )
        database = stack.enter_context(temporary_postgres(postgres_url))
        if not empty:
            # Before the first process is killed, so that there is something to count.
            open_upgraded(database).dispose()
        folder = stack.enter_context(TemporaryDirectory())
        host = ForkingHost(
            Path(folder),
            {
                "instance": name,
                "broker": {"url": amqp_url, "staging_queue_type": queue_type},
                "database": {"url": database},
                "ingestion": {"error_queues": [shop.error]},
                "api": {"port": 0},
                **settings,
            },
        )
        stack.callback(kill_all, host)
        yield Grounds(
            amqp_url=amqp_url,
            shop=shop,
            host=host,
            conn=stack.enter_context(psycopg.connect(psycopg_url(database), autocommit=True)),
            dice=random.Random(seed),  # noqa: S311 - so that a run can be repeated
        )


def kill_all(host: Host) -> None:
    """Kill whatever runs of a host."""
    for service in host.services:
        service.kill()


def _delete(url: str, queues: Sequence[str]) -> None:
    with closing(pika_connection(url)) as connection:
        channel = connection.channel()
        for queue in queues:
            channel.queue_delete(queue)
