"""Where the kills take place: each broker with each database."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import text

from retrier.app.parts import make_transport
from retrier.app.verify import verify
from retrier.domain.wire import PropertyCodec
from retrier.settings import load_settings
from retrier.store.engine.database import Database
from tests.journeys.conftest import Site
from tests.support.embedded_shop import EmbeddedShop, opened_embedded_shop
from tests.support.forked_service import ForkingHost
from tests.support.redis_shop import opened_redis_shop
from tests.support.shop import Shop, opened_shop
from tests.support.sqs_queue_shop import FIFO, SqsQueueShop, opened_sqs_queue_shop
from tests.support.sqs_server import SqsServer

COUNT = 30
WINDOW = 10
MOST = {"none": 0, "one message": 1, "one window": WINDOW}
"""How many messages may be sent twice, by the words of the documentation."""

IN_DOUBT = (
    "SELECT unique_message_id FROM v_failed_message_retries "
    "WHERE sending_since IS NOT NULL AND forwarded_at IS NULL"
)
STORED = "SELECT count(*) FROM failed_messages"
IDS = "SELECT unique_message_id FROM failed_messages ORDER BY failure_seq"


@dataclass(frozen=True, slots=True)
class Combination:
    """A broker, and a database, `postgres` or `sqlite`.

    The broker: `classic` or `quorum` queues of RabbitMQ, `embedded`, `redis`, `sqs` or its `fifo`.
    """

    broker: str
    database: str

    def __str__(self) -> str:
        return f"{self.broker}-{self.database}"

    @property
    def marks(self) -> list[pytest.MarkDecorator]:
        """Name the servers it needs."""
        broker = [pytest.mark.rabbitmq] if self.broker in ("classic", "quorum") else []
        return broker + ([pytest.mark.postgres] if self.database == "postgres" else [])


COMBINATIONS = [
    Combination(broker, database)
    for database in ("postgres", "sqlite")
    for broker in ("classic", "quorum", "embedded", "redis")
] + [Combination("sqs", "sqlite"), Combination("fifo", "postgres")]
ON_SQS = ("sqs", "fifo")
VISIBILITY = 3
"""Seconds until SQS hands out again what a killed process had in hand, there a minute."""


@dataclass(frozen=True, slots=True)
class Place(Site):
    """A site and its addresses."""

    broker_url: str = ""
    database: Database | None = None
    is_fifo: bool = False
    """What is sent twice arrives once."""
    endpoint: str = ""
    """Where the server is, if its URL does not say it: of SQS."""

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Look into the database; often, so not with a new connection each time."""
        assert self.database is not None
        with self.database.engine.connect() as conn:
            return [tuple(row) for row in conn.execute(text(sql))]

    @property
    def reads_envelopes(self) -> bool:
        """Whether raw properties are Kombu's envelopes, and not those of AMQP."""
        return not self.broker_url.startswith("amqp")

    @property
    def codec(self) -> PropertyCodec:
        """What reads and edits raw properties of this broker."""
        return make_transport(load_settings(self.host.config, {})).codec

    def beside(self, queue: str, word: str) -> str:
        """Name another queue after this one: on SQS a name has no dots, but for `.fifo`."""
        end = FIFO if queue.endswith(FIFO) else ""
        return f"{queue.removesuffix(end)}-{word}{end}"

    def most_doubled(self, admitted: str) -> int:
        """Return how many messages a kill may send twice where the documentation says this."""
        return 0 if self.is_fifo else MOST[admitted]

    def ids(self) -> list[str]:
        """Return the unique ids of all failed messages, in the order in which they failed."""
        return [str(row[0]) for row in self.query(IDS)]

    def execute(self, *statements: str) -> None:
        """Change the database behind the service's back."""
        assert self.database is not None
        with self.database.engine.begin() as conn:
            for statement in statements:
                conn.execute(text(statement))

    def broken_rules(self) -> list[str]:
        """Return what `retrier verify` finds off."""
        found = verify(load_settings(self.host.config, {}))
        assert found.broker_problem is None
        return [rule.rule for rule in found.broken]


def _open_shop(
    kind: str, broker_url: str, instance: str, sqs: SqsServer | None
) -> AbstractContextManager[Shop | EmbeddedShop | SqsQueueShop]:
    def name(queue: str) -> str:
        return f"{instance}.{queue}"

    match kind:
        case "embedded":
            return opened_embedded_shop(broker_url)
        case "sqs" | "fifo":
            assert sqs is not None
            return opened_sqs_queue_shop(sqs, instance.replace(".", "-"), fifo=kind == "fifo")
        case "redis":
            return opened_redis_shop(broker_url, name, instance)
        case _:
            return opened_shop(broker_url, name, kind)


def _settings_of_sqs(server: SqsServer) -> dict[str, Any]:
    return {
        "broker": {"transport_options": server.options(visibility=VISIBILITY)},
        "processor": {"lease": f"{VISIBILITY}s"},
    }


@contextmanager
def opened_place(
    combination: Combination,
    folder: Path,
    database: Database,
    server_url: Callable[[str], str],
    sqs: SqsServer | None = None,
) -> Iterator[Place]:
    """Give new queues and an empty database; nothing runs yet."""
    instance = f"test.kills.{uuid4().hex[:12]}"
    on_rabbitmq = combination.broker in ("classic", "quorum")
    embedded = combination.broker == "embedded"
    broker_url = f"embedded:///{folder}/broker.db" if embedded else server_url(combination.broker)
    # An emulator takes longer than half a second for the first copies of a large batch.
    drain = "500ms" if sqs is None else "2s"
    more = _settings_of_sqs(sqs) if sqs is not None else {}

    with ExitStack() as stack:
        shop = stack.enter_context(_open_shop(combination.broker, broker_url, instance, sqs))
        database_url = database.engine.url.render_as_string(hide_password=False)
        host = ForkingHost(
            folder,
            {
                "instance": instance,
                "broker": {"url": broker_url}
                | ({"staging_queue_type": combination.broker} if on_rabbitmq else {})
                | more.pop("broker", {}),
                "database": {"url": database_url},
                "ingestion": {"error_queues": [shop.error]},
                "retries": {"forwarding_window": WINDOW, "drain_timeout": drain},
                "api": {"port": 0},
                "retention": {"second_look": "1ms"},
                **more,
            },
        )
        staging = f"{instance}.staging"
        try:
            is_fifo, endpoint = combination.broker == "fifo", sqs.endpoint if sqs else ""
            yield Place(shop, host, database_url, staging, broker_url, database, is_fifo, endpoint)
        finally:
            for service in host.services:
                service.kill()
                print(*service.logged, sep="\n")  # noqa: T201 - shown with a failure only
            if isinstance(shop, Shop):
                for queue in (staging, shop.error, shop.orders, shop.payments):
                    shop.delete(queue)
