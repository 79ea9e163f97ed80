"""A service beside real Celery workers, on one error queue."""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.celery_workers import CeleryShop
from tests.support.databases import sqlite_url
from tests.support.forked_service import ForkingHost
from tests.support.servers import pika_connection
from tests.support.service import Host, Service, hosted


@pytest.fixture
def error_queue(amqp_url: str, queue_name: Callable[..., str]) -> str:
    """Give the name of an error queue that is there."""
    name = queue_name("error")
    with closing(pika_connection(amqp_url)) as connection:
        connection.channel().queue_declare(name, durable=True)
    return name


@pytest.fixture
def open_shop(
    amqp_url: str, queue_name: Callable[..., str], error_queue: str, tmp_path: Path
) -> Iterator[Callable[..., CeleryShop]]:
    """Give a function that opens a shop; its workers are ended afterwards."""
    opened: list[CeleryShop] = []

    def open_one(serializer: str = "json", **environ: str) -> CeleryShop:
        folder = tmp_path / "shop"
        queue = queue_name("tasks")
        opened.append(CeleryShop(amqp_url, queue, error_queue, folder, serializer, **environ))
        return opened[-1]

    yield open_one
    for shop in opened:
        shop.close()


@pytest.fixture
def service(
    amqp_url: str, queue_name: Callable[..., str], error_queue: str, tmp_path: Path
) -> Iterator[Service]:
    """Give a running service on the error queue."""
    instance = queue_name("instance")
    settings = {
        "instance": instance,
        "broker": {"url": amqp_url},
        "database": {"url": sqlite_url(tmp_path)},
        "ingestion": {"error_queues": [error_queue]},
        "api": {"port": 0},
    }
    host: Host
    with hosted(tmp_path, settings, ForkingHost) as host:
        yield host.start()
    with closing(pika_connection(amqp_url)) as connection:
        connection.channel().queue_delete(f"{instance}.staging")
