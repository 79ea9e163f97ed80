"""A shop, a database and a host for the service: everything as a user would have it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import make_url

from tests.support.databases import temporary_postgres
from tests.support.service import Host, hosted
from tests.support.shop import Shop, opened_shop


@dataclass(frozen=True, slots=True)
class Site:
    """Where one journey takes place."""

    shop: Shop
    host: Host
    database_url: str
    staging_queue: str

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Look into the database, as an operator would."""
        with psycopg.connect(self.database_url, autocommit=True) as conn:
            return conn.execute(sql).fetchall()

    def count(self, sql: str) -> int:
        """Return the number a query answers with."""
        return int(self.query(sql)[0][0])


@pytest.fixture(params=["classic", "quorum"])
def kind(request: pytest.FixtureRequest) -> str:
    """Name the type of all queues of the journey."""
    return str(request.param)


@pytest.fixture
def site(
    kind: str,
    amqp_url: str,
    postgres_url: str,
    queue_name: Callable[..., str],
    tmp_path: Path,
) -> Iterator[Site]:
    """Give a site on RabbitMQ and PostgreSQL; nothing runs there yet."""
    instance = queue_name("instance")
    with temporary_postgres(postgres_url) as url, opened_shop(amqp_url, queue_name, kind) as shop:
        settings = {
            "instance": instance,
            "broker": {"url": amqp_url, "staging_queue_type": kind},
            "database": {"url": url},
            "ingestion": {"error_queues": [shop.error]},
            "api": {"port": 0},
        }
        with hosted(tmp_path, settings) as host:
            plain = make_url(url).set(drivername="postgresql")
            database_url = plain.render_as_string(hide_password=False)
            yield Site(shop, host, database_url, f"{instance}.staging")
