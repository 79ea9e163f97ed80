"""What a quorum error queue delivers: in the order of its failures, and nothing of it is lost.

`python -m tests.endurance.deliveries --order 10 --messages 5000 --starts 5`
"""

import argparse
import random
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

import psycopg

from retrier.domain.wire import Confirmed, Edit, Outgoing, PropertyCodec
from retrier.transport.rabbitmq import RabbitMQTransport
from tests.endurance.report import tell
from tests.support.databases import open_upgraded, temporary_postgres
from tests.support.forked_service import ForkingHost
from tests.support.servers import POSTGRES, RABBITMQ, found, pika_connection, psycopg_url
from tests.support.waiting import let_pass, wait_until

DEADLINE = 300.0
WINDOW = 1000
STREAM = 40
"""Failures of one stream."""
LIMITS = (0, 1, 2)
STOPS = 2
"""So many processes at least are to be stopped while they ingest, else nothing is proved."""
SETTLING = 2.0
"""Seconds for what was handed out and is not acknowledged yet: nobody else can see it."""
STORED = "SELECT count(*) FROM failed_messages"
TWICE = "SELECT count(*) FROM failed_messages WHERE attempts > 1"
IN_ORDER = "SELECT message_id FROM failed_messages ORDER BY number"
OF_THE_STREAM = "SELECT message_id FROM failed_messages ORDER BY stream_position, number"


@dataclass(frozen=True, slots=True, kw_only=True)
class Came:
    """What came of the messages of one queue with a delivery limit."""

    limit: int
    published: int
    starts: int
    stops: int
    """Stops in the course of ingestion: of a process that had stored something, but not all."""
    stored: int
    left: int
    twice: int

    @property
    def lost(self) -> int:
        """Messages that the queue has given up, and nobody has."""
        return self.published - self.stored - self.left


class Site:
    """One new quorum error queue and one new database."""

    def __init__(self, amqp_url: str, host: ForkingHost, queue: str, database: str) -> None:
        self.host = host
        self._amqp_url = amqp_url
        self._queue = queue
        self._database = database

    def fail(self, count: int) -> None:
        """Put failures of one stream on the queue, in order; the broker has them."""
        transport = RabbitMQTransport(self._amqp_url, connection_name="endurance")
        with closing(transport.publisher()) as publisher:
            for start in range(0, count, WINDOW):
                numbers = range(start, min(count, start + WINDOW))
                failed = [self._make(transport.codec, number) for number in numbers]
                outcomes = publisher.publish(failed, lambda: None)
                assert set(outcomes) == {Confirmed()}  # noqa: S101 - else nothing can be said

    def _make(self, codec: PropertyCodec, number: int) -> Outgoing:
        headers = {"NServiceBus.FailedQ": "orders", "Retrier.Stream": "order 1"}
        edit = Edit(
            set_headers=headers | {"NServiceBus.MessageId": str(number)},
            set_fields={"delivery_mode": 2},
        )
        raw = codec.edit(codec.empty, edit)
        return Outgoing(queue=self._queue, raw=raw, body=b"%d" % number)

    def left(self) -> int:
        """Return how many messages are on the queue; nobody consumes it."""
        with closing(pika_connection(self._amqp_url)) as connection:
            answer = connection.channel().queue_declare(self._queue, passive=True)
            return int(answer.method.message_count)

    def texts(self, sql: str) -> list[str]:
        """Return the first column of what a query finds."""
        with psycopg.connect(psycopg_url(self._database)) as conn:
            return [str(row[0]) for row in conn.execute(sql).fetchall()]

    def count(self, sql: str) -> int:
        """Return the number that a query answers with."""
        return int(self.texts(sql)[0])

    def wait_stored(self, count: int) -> None:
        """Wait until so many messages are stored, or the queue has no more: what is lost never comes."""
        wait_until(
            lambda: self.count(STORED) >= count or self._is_done(), DEADLINE, "all is stored"
        )

    def _is_done(self) -> bool:
        """Say whether nothing waits, and nothing is on its way."""
        if self.left() > 0:
            return False
        before = self.count(STORED)
        let_pass(SETTLING)
        return self.left() == 0 and self.count(STORED) == before


@contextmanager
def opened_site(amqp_url: str, postgres_url: str, limit: int | None = None) -> Iterator[Site]:
    """Give a new queue, without a dead-letter exchange, and a new database; both are removed."""
    name = f"test.deliveries.{uuid4().hex[:12]}"
    arguments: dict[str, object] = {"x-queue-type": "quorum"}
    if limit is not None:
        arguments["x-delivery-limit"] = limit
    with closing(pika_connection(amqp_url)) as connection:
        connection.channel().queue_declare(name, durable=True, arguments=arguments)
    settings = {
        "instance": name,
        "broker": {"url": amqp_url},
        "ingestion": {"error_queues": [name]},
        "api": {"port": 0},
    }
    try:
        with temporary_postgres(postgres_url) as database, TemporaryDirectory() as folder:
            open_upgraded(database).dispose()
            settings["database"] = {"url": database}
            host = ForkingHost(Path(folder), settings)
            try:
                yield Site(amqp_url, host, name, database)
            finally:
                for service in host.services:
                    service.kill()
    finally:
        with closing(pika_connection(amqp_url)) as connection:
            for queue in (name, f"{name}.staging"):
                connection.channel().queue_delete(queue)


def order(amqp_url: str, postgres_url: str, *, is_burst: bool) -> list[str]:
    """Let failures of one stream wait for the start, or come all at once; return their order."""
    with opened_site(amqp_url, postgres_url) as site:
        if is_burst:
            service = site.host.start_ready()
            site.fail(STREAM)
        else:
            site.fail(STREAM)
            service = site.host.start_ready()
        site.wait_stored(STREAM)
        service.stop()
        stored = site.texts(IN_ORDER)
        of_stream = site.texts(OF_THE_STREAM)
        return stored if stored == of_stream else of_stream


def limited(
    amqp_url: str, postgres_url: str, limit: int, plan: argparse.Namespace, dice: random.Random
) -> Came:
    """Start again and again, each process but the last is stopped early; count every message."""
    with opened_site(amqp_url, postgres_url, limit) as site:
        site.fail(plan.messages)
        stops = 0
        for start in range(plan.starts):
            service = site.host.start()
            before = site.count(STORED)
            is_last = start == plan.starts - 1
            # A few of them: while some are counted, many more are stored.
            few = dice.randrange(1, max(2, plan.messages // (2 * plan.starts)))
            site.wait_stored(plan.messages if is_last else before + few)
            service.stop()
            stops += not is_last and before < site.count(STORED) < plan.messages
        return Came(
            limit=limit,
            published=plan.messages,
            starts=plan.starts,
            stops=stops,
            stored=site.count(STORED),
            left=site.left(),
            twice=site.count(TWICE),
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line, run all of it, print what came; 1 if something is off."""
    parser = argparse.ArgumentParser(prog="python -m tests.endurance.deliveries")
    parser.add_argument("--order", type=int, default=10, help="new queues for each kind of order")
    parser.add_argument("--messages", type=int, default=5000)
    parser.add_argument("--starts", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    plan = parser.parse_args(arguments)
    is_well = True
    with found(RABBITMQ) as amqp_url, found(POSTGRES) as postgres_url:
        for is_burst in (False, True):
            came = [order(amqp_url, postgres_url, is_burst=is_burst) for _ in range(plan.order)]
            wrong = [each for each in came if each != [str(number) for number in range(STREAM)]]
            how = "come all at once" if is_burst else "wait for the start"
            tell(
                f"{STREAM} failures {how}: in order {len(came) - len(wrong)} of {len(came)} times",
                *(" ".join(each) for each in wrong),
            )
            is_well = is_well and not wrong
        for limit in LIMITS:
            dice = random.Random(plan.seed)  # noqa: S311 - so that a run can be repeated
            told = limited(amqp_url, postgres_url, limit, plan, dice)
            tell(f"{told}, lost {told.lost}")
            is_well = is_well and told.lost == 0 and told.stops >= STOPS
    return 0 if is_well else 1


if __name__ == "__main__":
    sys.exit(main())
