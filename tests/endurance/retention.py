"""A day with retention, in minutes: the database stays as large as it is, and nothing is off.

`python -m tests.endurance.retention --seconds 240`
"""

import argparse
import random
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any
from uuid import uuid4

import httpx
import psycopg

from tests.endurance.far_ends import Consumer, Producer
from tests.endurance.report import tell
from tests.support.databases import open_upgraded, temporary_postgres
from tests.support.forked_service import ForkingHost
from tests.support.servers import POSTGRES, RABBITMQ, found, pika_connection, psycopg_url
from tests.support.service import Service
from tests.support.shop import Shop
from tests.support.waiting import let_pass, wait_until

HOURS = 24
KEPT = 3
"""Hours for which messages are kept."""
INSTANCES = 2
BEAT = 0.1
DEADLINE = 120
GROWTH = 1.15
"""What the last third of the day may be larger than the second."""
LONG_DAY = 120
"""Seconds of a day whose size says something."""
SET_ASIDE = 0.3
NO_END = 10**9
STORED = "SELECT count(*) FROM failed_messages"
SIZE = "SELECT pg_database_size(current_database())"
COUNTED = "SELECT coalesce(sum(count), 0) FROM ledger WHERE entry = '{}'"
UNDER_WAY = "SELECT count(*) FROM retry_operations WHERE completed_at IS NULL"
IDS = """
    SELECT CAST(unique_message_id AS text), message_id FROM failed_messages
    WHERE status = 'unresolved' ORDER BY random() LIMIT 5
"""
KNOWN = "SELECT message_id FROM failed_messages"
# Operations are kept for an hour at least, which is longer than this day: they are made older.
AGE = "UPDATE retry_operations SET completed_at = completed_at - interval '1 hour'"
LEADER = "SELECT pid FROM processor_lease"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How many seconds the day takes, and what happens in it."""

    seconds: float
    kills: int
    rate: int
    seed: int = 1

    @property
    def hour(self) -> float:
        """Seconds of an hour."""
        return self.seconds / HOURS


@dataclass(frozen=True, slots=True, kw_only=True)
class Hour:
    """What there was at the end of an hour."""

    number: int
    stored: int
    deleted: int
    megabytes: float


@dataclass(slots=True, kw_only=True)
class Day:
    """The day on its way, and what was found in the end."""

    plan: Plan
    host: ForkingHost
    shop: Shop
    conn: psycopg.Connection[Any]
    producer: Producer
    consumer: Consumer
    dice: random.Random
    hours: list[Hour] = field(default_factory=list)
    set_aside: set[str] = field(default_factory=set)
    kills: int = 0
    problems: list[str] = field(default_factory=list)

    def pass_by(self) -> None:
        """Let the day pass, with requests all the time, a look each hour, and kills in between."""
        begin = monotonic()
        alive = [self.host.start() for _ in range(INSTANCES)]
        while (passed := monotonic() - begin) < self.plan.seconds:
            if int(passed / self.plan.hour) > (self.hours[-1].number if self.hours else 0):
                self._look(int(passed / self.plan.hour), alive)
            if passed * (self.plan.kills + 1) >= self.plan.seconds * (self.kills + 1):
                self._kill(alive)
            self._ask(alive)
            let_pass(BEAT)
        self._look(HOURS, alive)

    def finish(self) -> None:
        """Let all work be done, and count."""
        wait_until(self._is_quiet, DEADLINE, "all work is done")
        for service in self.host.services:
            if service.process.poll() is None and service.stop() != 0:
                self.problems.append("a process did not stop in good order")
        known = {row[0] for row in self.conn.execute(KNOWN)}
        came = set(self.consumer.message_of.values())
        lost = self.producer.failed - known - came - self.set_aside
        self._expect("messages are lost", len(lost))
        counted = self._count(COUNTED.format("new")) - self._count(COUNTED.format("deleted"))
        self._expect("messages are not in the ledger", counted - self._count(STORED))
        self._expect("is the exit code of retrier verify", self._verify())
        if self.hours[-1].deleted == 0:
            self.problems.append("nothing was deleted")
        self._compare_sizes()

    def _compare_sizes(self) -> None:
        """Compare the last third with the one before; a short day has not come to a balance yet."""
        if self.plan.seconds < LONG_DAY:
            return
        third = HOURS // 3
        middle = max(each.megabytes for each in self.hours if third < each.number <= 2 * third)
        last = max(each.megabytes for each in self.hours if each.number > 2 * third)
        if last > middle * GROWTH:
            self.problems.append(f"the database grew from {middle:.1f} to {last:.1f} MB")

    def _ask(self, alive: Sequence[Service]) -> None:
        """Retry everything, and set some aside, each at times."""
        with (
            suppress(httpx.HTTPError, AssertionError, IndexError),
            self.dice.choice(alive).http as http,
        ):
            if self._count(UNDER_WAY) == 0:
                http.post("/api/errors/retry/all")
            ids = self.conn.execute(IDS).fetchall()
            if ids and self.dice.random() < SET_ASIDE:
                self.set_aside |= {row[1] for row in ids}
                http.post("/api/errors/archive", json=[row[0] for row in ids])

    def _give_up_waiting(self, alive: Sequence[Service]) -> None:
        """Resolve by hand what was sent an hour ago and was not confirmed."""
        now = self.conn.execute("SELECT clock_timestamp()").fetchall()[0][0]
        with (
            suppress(httpx.HTTPError, AssertionError, IndexError),
            self.dice.choice(alive).http as http,
        ):
            last = now - timedelta(seconds=self.plan.hour)
            body = {"from": (now - timedelta(days=1)).isoformat(), "to": last.isoformat()}
            http.patch("/api/pendingretries/resolve", json=body)

    def _look(self, number: int, alive: Sequence[Service]) -> None:
        self._give_up_waiting(alive)
        # The server's autovacuum looks once a minute, which is many hours of this day.
        self.conn.execute("VACUUM")
        self.conn.execute(AGE)
        deleted = self._count(COUNTED.format("deleted"))
        size = self._count(SIZE) / 1e6
        hour = Hour(number=number, stored=self._count(STORED), deleted=deleted, megabytes=size)
        self.hours.append(hour)
        tell(f"{number:4} h | {hour.stored:7} stored | {deleted:8} deleted | {size:7.1f} MB")

    def _kill(self, alive: list[Service]) -> None:
        """Kill the processor, or another one in one case of three, and start another instead."""
        leader = [row[0] for row in self.conn.execute(LEADER)]
        chosen = [each for each in alive if each.pid in leader] or alive
        service = self.dice.choice(alive if self.dice.random() < 1 / 3 else chosen)
        service.kill()
        self.kills += 1
        alive[alive.index(service)] = self.host.start()

    def _is_quiet(self) -> bool:
        stored = len(self.producer.failed) <= self._count(COUNTED.format("new"))
        waiting = _count_waiting(self.producer.url, [self.shop.error, self.shop.orders])
        return stored and waiting == 0 and self._count(UNDER_WAY) == 0

    def _verify(self) -> int:
        command = [sys.executable, "-m", "retrier", "verify", "--config", str(self.host.config)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - ourselves
        if done.returncode:
            tell(done.stdout, done.stderr)
        return done.returncode

    def _expect(self, words: str, number: int) -> None:
        if number:
            self.problems.append(f"{number} {words}")

    def _count(self, sql: str) -> int:
        return int(self.conn.execute(sql).fetchall()[0][0])


def endure(plan: Plan, amqp_url: str, postgres_url: str) -> Day:
    """Let the day pass, and count."""
    with _prepared(plan, amqp_url, postgres_url) as day:
        with _at_work(day.consumer):
            with _at_work(day.producer):
                day.pass_by()
            day.finish()
        return day


@contextmanager
def _at_work(far_end: Producer | Consumer) -> Iterator[None]:
    stop = threading.Event()
    thread = threading.Thread(target=far_end.run, args=[stop], daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(10)


@contextmanager
def _prepared(plan: Plan, amqp_url: str, postgres_url: str) -> Iterator[Day]:
    name, begin = f"test.retention.{uuid4().hex[:12]}", monotonic()
    dice = random.Random(plan.seed)  # noqa: S311 - so that a run can be repeated
    with ExitStack() as stack:
        with closing(pika_connection(amqp_url)) as connection:
            shop = Shop(connection.channel(), lambda queue: f"{name}.{queue}", "quorum")
        for queue in (shop.error, shop.orders, shop.payments, f"{name}.staging"):
            stack.callback(_delete, amqp_url, queue)
        database = stack.enter_context(temporary_postgres(postgres_url))
        folder = stack.enter_context(TemporaryDirectory())
        open_upgraded(database).dispose()
        host = ForkingHost(Path(folder), _settings(plan, name, amqp_url, database, shop))
        stack.callback(_kill_all, host)
        conn = stack.enter_context(psycopg.connect(psycopg_url(database), autocommit=True))
        yield Day(
            plan=plan,
            host=host,
            shop=shop,
            conn=conn,
            producer=Producer(
                url=amqp_url,
                shop=shop,
                count=NO_END,
                allowance=lambda: int((monotonic() - begin) * plan.rate),
                dice=random.Random(dice.random()),  # noqa: S311 - no secret
            ),
            consumer=Consumer(url=amqp_url, shop=shop, dice=random.Random(dice.random())),  # noqa: S311 - no secret
            dice=dice,
        )


def _count_waiting(url: str, queues: Sequence[str]) -> int:
    # A connection that is used once in minutes would be closed for want of heartbeats.
    with closing(pika_connection(url)) as connection:
        channel = connection.channel()
        found = [channel.queue_declare(each, passive=True) for each in queues]
        return sum(each.method.message_count for each in found)


def _kill_all(host: ForkingHost) -> None:
    for service in host.services:
        service.kill()


def _delete(url: str, queue: str) -> None:
    with closing(pika_connection(url)) as connection:
        connection.channel().queue_delete(queue)


def _settings(plan: Plan, name: str, amqp_url: str, database: str, shop: Shop) -> dict[str, Any]:
    kept = f"{int(plan.hour * KEPT * 1000)}ms"
    return {
        "instance": name,
        "broker": {"url": amqp_url},
        "database": {"url": database},
        "ingestion": {"error_queues": [shop.error]},
        "retention": {"resolved": kept, "archived": kept, "operations": "1h"},
        "processor": {"lease": "5s"},
        "api": {"port": 0},
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line, let a day pass, print what was found; 1 if something is off."""
    parser = argparse.ArgumentParser(prog="python -m tests.endurance.retention")
    parser.add_argument("--seconds", type=float, default=240)
    parser.add_argument("--kills", type=int, default=12)
    parser.add_argument("--rate", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    with found(RABBITMQ) as amqp_url, found(POSTGRES) as postgres_url:
        day = endure(Plan(**vars(parser.parse_args(arguments))), amqp_url, postgres_url)
    doubles = day.consumer.came - len(day.consumer.copies)
    tell(
        f"{len(day.producer.failed)} failed, {len(day.consumer.copies)} retries came, "
        f"{doubles} of them twice, {day.kills} kills",
        *(day.problems or ["nothing is off"]),
    )
    return 1 if day.problems else 0


if __name__ == "__main__":
    sys.exit(main())
