"""Many destinations fail at once: their breakers try them, and a healthy queue must not wait.

`python -m tests.endurance.breakers --queues 50,200,400 --instances 1,2`
"""

import argparse
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import product
from math import ceil
from statistics import median
from time import monotonic
from typing import Any

import pika
import psycopg
from pika.adapters.blocking_connection import BlockingChannel
from psycopg.conninfo import make_conninfo

from tests.endurance.far_ends import consume, make_failure
from tests.endurance.grounds import Grounds, at_work, opened_grounds
from tests.endurance.report import tell
from tests.support.servers import POSTGRES, RABBITMQ, found, pika_connection
from tests.support.shop import Sent, failure_headers
from tests.support.waiting import let_pass, wait_until

FAILURES = 6
"""Messages of each queue: one more than opens its breaker."""
PACE = 0.5
"""Seconds between two failures on the healthy queue."""
DEADLINE = 120.0
HEALTHY_WITHIN, RESOLVED_WITHIN, LONGEST_HELD = 2.0, 15.0, 0.5
"""Seconds: 95 of 100 healthy retries, all after the repair, a transaction that holds the lease."""
MOST_BATCHES = 2
"""Batches before that of 95 of 100 healthy retries: one is on its way when it becomes due."""
SETTINGS: Mapping[str, Mapping[str, object]] = {
    "breakers": {"window": "60s", "threshold": "50%", "min": 5, "cooldown": "2s"},
    "policies": {
        "rules": [
            {
                "name": "often",
                "match": {},
                "attempts": 1000,
                "backoff": {"kind": "fixed", "first": "300ms"},
            }
        ]
    },
}
HOLDING = """
    SELECT coalesce(max(extract(epoch FROM clock_timestamp() - xact_start)), 0)
    FROM pg_stat_activity JOIN pg_locks USING (pid)
    WHERE relation = 'processor_lease'::regclass AND mode = 'RowExclusiveLock' AND granted
"""
OPENED = "SELECT count(*) FROM breakers WHERE state <> 'closed'"
COOLDOWNS = """
    SELECT coalesce(min(extract(epoch FROM due_at - clock_timestamp())), 0),
           coalesce(max(extract(epoch FROM due_at - clock_timestamp())), 0)
    FROM breakers WHERE state = 'open'
"""
BATCHES_BEFORE = """
    SELECT (SELECT count(*) FROM event_log
            WHERE kind = 'batch_staged' AND at > processing_attempts.retry_at
              AND at < coalesce(claims.sending_since, ended.sending_since)) - 1
    FROM failed_messages JOIN causes USING (cause_id)
    JOIN processing_attempts USING (attempt_id)
    LEFT JOIN failed_message_retries AS claims ON claims.number = failed_messages.number
    LEFT JOIN ended_retries AS ended ON ended.number = failed_messages.number
    WHERE queue = '{queue}' AND coalesce(claims.sending_since, ended.sending_since) IS NOT NULL
"""
"""Of each healthy retry, the batches that were staged before its own since it was due."""
LEFT = "SELECT count(*) FROM failed_messages WHERE status <> 'resolved'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """So many queues break, so many processes run, and so long the healthy one is watched."""

    queues: int
    instances: int
    seconds: float = 45
    seed: int = 1


@dataclass(slots=True, kw_only=True)
class Consumers:
    """Consumers of many queues: all fail what comes until they are repaired; then they confirm."""

    url: str
    queues: Sequence[str]
    error: str
    repaired: threading.Event = field(default_factory=threading.Event)

    def run(self, stop: threading.Event) -> None:
        """Consume until told to stop."""
        with closing(pika_connection(self.url)) as connection:
            channel = connection.channel()
            channel.basic_qos(prefetch_count=200)
            for queue in self.queues:
                channel.basic_consume(queue, self._handle)
            while not stop.is_set():
                connection.process_data_events(time_limit=0.1)

    def _handle(
        self,
        channel: BlockingChannel,
        method: Any,
        properties: pika.BasicProperties,
        body: bytes,
    ) -> None:
        sent = Sent(properties, body)
        if self.repaired.is_set():
            confirm(channel, sent)
        else:
            headers = {**sent.headers, **failure_headers(method.routing_key)}
            again = pika.BasicProperties(
                message_id=properties.message_id, delivery_mode=2, headers=headers
            )
            channel.basic_publish("", self.error, body, again)
        channel.basic_ack(method.delivery_tag)


@dataclass(slots=True, kw_only=True)
class Healthy:
    """A queue whose consumer confirms all: `waited` is how long each retry took, in seconds."""

    url: str
    queue: str
    error: str
    failed: dict[str, float] = field(default_factory=dict)
    waited: list[float] = field(default_factory=list)

    def fail(self, channel: BlockingChannel, sent: Sent) -> None:
        """Put one failure of this queue on the error queue."""
        self.failed[sent.properties.message_id] = monotonic()
        channel.basic_publish("", self.error, sent.body, sent.properties)

    def run(self, stop: threading.Event) -> None:
        """Consume until told to stop."""
        consume(self.url, self.queue, stop, self._handle)

    def _handle(self, channel: BlockingChannel, sent: Sent) -> None:
        self.waited.append(monotonic() - self.failed.pop(sent.properties.message_id))
        confirm(channel, sent)


def nearly_all(values: Sequence[float]) -> float:
    """Return what 95 of 100 of these values do not exceed."""
    return sorted(values)[ceil(0.95 * len(values)) - 1]


def confirm(channel: BlockingChannel, sent: Sent) -> None:
    """Say that a retry succeeded."""
    unique_id = "ServiceControl.Retry.UniqueMessageId"
    headers = {
        "ServiceControl.Retry.Successful": "2030-05-04 13:00:00:000000 Z",
        unique_id: sent.headers[unique_id],
    }
    queue = sent.headers["ServiceControl.Retry.AcknowledgementQueue"]
    channel.basic_publish("", queue, b"", pika.BasicProperties(headers=headers))


@dataclass(slots=True, kw_only=True)
class HoldWatch:
    """Looks, from outside, how long transactions hold the row of the lease."""

    url: str
    longest: float = 0.0

    def run(self, stop: threading.Event) -> None:
        """Look ten times a second until told to stop."""
        with psycopg.connect(self.url, autocommit=True) as conn:
            while not stop.wait(0.1):
                (held,) = conn.execute(HOLDING).fetchone() or (0.0,)
                self.longest = max(self.longest, float(held))


@dataclass(slots=True, kw_only=True)
class Run:
    """One run on its way. `opened` are the breakers that had opened, `resolved` the seconds after the repair."""

    plan: Plan
    grounds: Grounds
    consumers: Consumers
    healthy: Healthy
    watch: HoldWatch
    opened: int = 0
    batches_before: Sequence[int] = ()
    resolved: float | None = None
    cooldown: float = 0.0
    """Seconds from the repair until the last breaker may be tried: it doubled its wait before."""

    @property
    def row(self) -> str:
        """What was seen, as a row of the table."""
        waited = self.healthy.waited or [float("inf")]
        missing = len(self.healthy.failed)
        resolved = "not" if self.resolved is None else f"{self.resolved:.1f} s"
        before = self.batches_before or [0]
        return (
            f"| {self.plan.queues} | {self.plan.instances} | {self.opened} "
            f"| {median(waited):.1f} s, {nearly_all(waited):.1f} s, {max(waited):.1f} s, "
            f"{missing} never | {nearly_all(before)}, {max(before)} "
            f"| {self.watch.longest:.2f} s | {resolved}, {self.cooldown:.1f} s |"
        )

    def pass_by(self) -> None:
        """Break all, watch the healthy one, repair all."""
        with closing(pika_connection(self.grounds.amqp_url)) as connection:
            channel = connection.channel()
            for _, queue in product(range(FAILURES), self.consumers.queues):
                sent = make_failure(queue, self.grounds.dice)
                channel.basic_publish("", self.healthy.error, sent.body, sent.properties)
            self._watch(connection, channel)
        self.opened = self.grounds.count(OPENED)
        self._repair()
        let_pass(HEALTHY_WITHIN)

    def _watch(self, connection: pika.BlockingConnection, channel: BlockingChannel) -> None:
        """Let the healthy queue fail twice a second, until the broken ones are about to be tried."""
        began = monotonic()
        while monotonic() < began + self.plan.seconds or not self._are_about_to_try():
            self.healthy.fail(channel, make_failure(self.healthy.queue, self.grounds.dice))
            connection.process_data_events(time_limit=PACE)

    def _are_about_to_try(self) -> bool:
        """Whether a round of trials begins now: a trial that failed just before waits for longer."""
        first, _ = self.grounds.query(COOLDOWNS)[0]
        return bool(0 <= first <= HEALTHY_WITHIN)

    def _repair(self) -> None:
        self.cooldown = float(self.grounds.query(COOLDOWNS)[0][1])
        self.consumers.repaired.set()
        began = monotonic()
        try:
            wait_until(lambda: self.grounds.count(LEFT) == 0, DEADLINE, "all are resolved")
            self.resolved = monotonic() - began
        except AssertionError:
            tell(f"{self.grounds.count(LEFT)} are not resolved {DEADLINE:g} s after the repair")

    def count(self) -> None:
        """Say what is off."""
        expect = self.grounds.expect
        waited = [*self.healthy.waited, *(float("inf") for _ in self.healthy.failed)]
        query = BATCHES_BEFORE.format(queue=self.healthy.queue)
        self.batches_before = [int(before) for (before,) in self.grounds.query(query)]
        late = [each for each in waited if each > HEALTHY_WITHIN]
        if nearly_all(waited) > HEALTHY_WITHIN:
            expect(f"of {len(waited)} healthy retries were late", len(late))
        if nearly_all(self.batches_before) > MOST_BATCHES:
            passed_by = [each for each in self.batches_before if each > MOST_BATCHES]
            expect("healthy retries waited for other batches", len(passed_by))
        expect("transactions held the lease too long", int(self.watch.longest > LONGEST_HELD))
        in_time = (
            self.resolved is not None and self.resolved - max(0.0, self.cooldown) <= RESOLVED_WITHIN
        )
        expect("is whether all was resolved too late", int(not in_time))
        for service in self.grounds.host.services:
            tell(*(str(line["message"]) for line in service.find("processor.lease_held_long")))
        self.grounds.stop_all()
        expect("is the exit code of retrier verify", self.grounds.verify())


@contextmanager
def declared(grounds: Grounds, count: int) -> Iterator[Sequence[str]]:
    """Give so many queues that break."""
    names = [f"{grounds.shop.orders}.{number}" for number in range(count)]
    with closing(pika_connection(grounds.amqp_url)) as connection:
        channel = connection.channel()
        for name in names:
            channel.queue_declare(name, durable=True)
    try:
        yield names
    finally:
        with closing(pika_connection(grounds.amqp_url)) as connection:
            channel = connection.channel()
            for name in names:
                channel.queue_delete(name)


def endure(plan: Plan, amqp_url: str, postgres_url: str) -> Run:
    """Break many, watch, repair, count."""
    servers = (amqp_url, postgres_url)
    with (
        opened_grounds("breakers", servers, plan.seed, SETTINGS, "classic") as grounds,
        declared(grounds, plan.queues) as queues,
    ):
        error, healthy = grounds.shop.error, grounds.shop.orders
        run = Run(
            plan=plan,
            grounds=grounds,
            consumers=Consumers(url=amqp_url, queues=queues, error=error),
            healthy=Healthy(url=amqp_url, queue=healthy, error=error),
            watch=HoldWatch(
                url=make_conninfo(grounds.conn.info.dsn, password=grounds.conn.info.password)
            ),
        )
        for _ in range(plan.instances):
            grounds.host.start_ready()
        with at_work(run.consumers, run.healthy, run.watch):
            run.pass_by()
        run.count()
        return run


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line, run each, print the table; 1 if something is off."""
    parser = argparse.ArgumentParser(prog="python -m tests.endurance.breakers")
    parser.add_argument("--queues", type=_numbers, default=[50, 200, 400])
    parser.add_argument("--instances", type=_numbers, default=[1, 2])
    parser.add_argument("--seconds", type=float, default=45)
    given = parser.parse_args(arguments)
    tell(
        "| queues | processes | breakers open | healthy retry: median, 95 %, longest "
        "| batches before it: 95 %, most | transaction | resolved, last cooldown over after the repair |"
    )
    off = 0
    with found(RABBITMQ) as amqp_url, found(POSTGRES) as postgres_url:
        for queues, instances in product(given.queues, given.instances):
            plan = Plan(queues=queues, instances=instances, seconds=given.seconds)
            run = endure(plan, amqp_url, postgres_url)
            tell(run.row, *run.grounds.problems)
            off += bool(run.grounds.problems)
    return 1 if off else 0


def _numbers(text: str) -> list[int]:
    return [int(each) for each in text.split(",")]


if __name__ == "__main__":
    sys.exit(main())
