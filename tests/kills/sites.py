"""Where the kills take place: each broker with each database."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import text

from retrier.app import verify
from retrier.settings import load_settings
from retrier.store.engine.database import Database
from tests.journeys.conftest import Site
from tests.support.embedded_shop import opened_embedded_shop
from tests.support.forked_service import ForkingHost
from tests.support.shop import opened_shop

COUNT = 30
WINDOW = 10

IN_DOUBT = (
    "SELECT unique_message_id FROM v_failed_message_retries "
    "WHERE sending_since IS NOT NULL AND forwarded_at IS NULL"
)
STORED = "SELECT count(*) FROM failed_messages"
IDS = "SELECT unique_message_id FROM failed_messages ORDER BY failure_seq"


@dataclass(frozen=True, slots=True)
class Combination:
    """A broker, `classic`, `quorum` or `embedded`, and a database, `postgres` or `sqlite`."""

    broker: str
    database: str

    def __str__(self) -> str:
        return f"{self.broker}-{self.database}"

    @property
    def marks(self) -> list[pytest.MarkDecorator]:
        """Name the servers it needs."""
        broker = [] if self.broker == "embedded" else [pytest.mark.rabbitmq]
        return broker + ([pytest.mark.postgres] if self.database == "postgres" else [])


COMBINATIONS = [
    Combination(broker, database)
    for database in ("postgres", "sqlite")
    for broker in ("classic", "quorum", "embedded")
]


@dataclass(frozen=True, slots=True)
class Place(Site):
    """A site and its addresses."""

    broker_url: str = ""
    database: Database | None = None

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Look into the database; often, so not with a new connection each time."""
        assert self.database is not None
        with self.database.engine.connect() as conn:
            return [tuple(row) for row in conn.execute(text(sql))]

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


@contextmanager
def opened_place(
    combination: Combination, folder: Path, database: Database, amqp_url: Callable[[], str]
) -> Iterator[Place]:
    """Give new queues and an empty database; nothing runs yet."""
    instance = f"test.kills.{uuid4().hex[:12]}"
    embedded = combination.broker == "embedded"
    broker_url = f"embedded:///{folder}/broker.db" if embedded else amqp_url()

    def name(queue: str) -> str:
        return f"{instance}.{queue}"

    with ExitStack() as stack:
        opened = (
            opened_embedded_shop(broker_url)
            if embedded
            else opened_shop(broker_url, name, combination.broker)
        )
        shop = stack.enter_context(opened)
        database_url = database.engine.url.render_as_string(hide_password=False)
        host = ForkingHost(
            folder,
            {
                "instance": instance,
                "broker": {"url": broker_url}
                | ({} if embedded else {"staging_queue_type": combination.broker}),
                "database": {"url": database_url},
                "ingestion": {"error_queues": [shop.error]},
                "retries": {"forwarding_window": WINDOW, "drain_timeout": "500ms"},
                "api": {"port": 0},
                "retention": {"second_look": "1ms"},
            },
        )
        staging = f"{instance}.staging"
        try:
            yield Place(shop, host, database_url, staging, broker_url, database)
        finally:
            for service in host.services:
                service.kill()
                print(*service.logged, sep="\n")  # noqa: T201 - shown with a failure only
            if not embedded:
                for queue in (staging, shop.error, shop.orders, shop.payments):
                    shop.delete(queue)
