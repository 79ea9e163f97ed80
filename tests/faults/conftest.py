"""Servers of the test run's own, and a site on them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

import pika.exceptions
import pytest

from tests.faults.work import PREFETCH, WINDOW
from tests.journeys.conftest import Site
from tests.support.private_servers import (
    PrivatePostgres,
    PrivateRabbitMQ,
    private_postgres,
    private_rabbitmq,
)
from tests.support.servers import pika_connection
from tests.support.service import hosted
from tests.support.shop import Shop


@pytest.fixture(scope="session")
def broker() -> Iterator[PrivateRabbitMQ]:
    """Give a RabbitMQ node that a test may do anything to."""
    with private_rabbitmq() as server:
        yield server


@pytest.fixture(scope="session")
def cluster() -> Iterator[PrivatePostgres]:
    """Give a PostgreSQL cluster that a test may do anything to."""
    with private_postgres() as server:
        yield server


@pytest.fixture
def site(broker: PrivateRabbitMQ, cluster: PrivatePostgres, tmp_path: Path) -> Iterator[Site]:
    """Give a site on both; nothing runs yet."""
    with open_site(broker, cluster.create_database(), tmp_path) as site:
        yield site


@contextmanager
def open_site(broker: PrivateRabbitMQ, database: str, folder: Path) -> Iterator[Site]:
    """Give a site with new queues on the node and this database."""

    def name(prefix: str) -> str:
        return f"test.{prefix}.{uuid4().hex[:12]}"

    instance = name("instance")
    with opened_shop(broker.url, name) as shop:
        settings = {
            "instance": instance,
            "broker": {"url": broker.url},
            "database": {"url": database},
            "ingestion": {"error_queues": [shop.error], "prefetch": PREFETCH},
            "retries": {"forwarding_window": WINDOW},
            "api": {"port": 0},
        }
        with hosted(folder, settings) as host:
            yield Site(shop, host, database, f"{instance}.staging")


@contextmanager
def opened_shop(url: str, name: Callable[[str], str]) -> Iterator[Shop]:
    """Open a shop; a fault may break its connection, and the test make another."""
    connection = pika_connection(url)
    shop = Shop(connection.channel(), name, "quorum")
    shop.channel = connection.channel()  # without confirms: quicker, and the depth is looked at
    try:
        yield shop
    finally:
        with suppress(pika.exceptions.AMQPError, OSError):
            shop.channel.connection.close()
