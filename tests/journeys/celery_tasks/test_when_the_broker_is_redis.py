"""Celery workers on a Redis of their own: their tasks fail, are seen, sent back, and run again."""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.celery_site import messages, retry_all, wait_for_status
from tests.support.celery_workers import CeleryShop
from tests.support.databases import sqlite_url
from tests.support.forked_service import ForkingHost
from tests.support.redis_servers import KEEPS, PrivateRedis, private_redis
from tests.support.service import Host, Service, hosted
from tests.support.waiting import wait_until

pytestmark = pytest.mark.journey
TASKS = "shop.tasks"
URGENT = f"{TASKS}\x06\x163"
"""Where Kombu keeps what has the priority 3."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PrivateRedis]:
    """Give a server that keeps everything."""
    with private_redis(tmp_path / "redis", *KEEPS) as server:
        yield server


@pytest.fixture
def open_shop(server: PrivateRedis, tmp_path: Path) -> Iterator[Callable[..., CeleryShop]]:
    """Give a function that opens a shop; its workers are ended afterwards."""
    opened: list[CeleryShop] = []

    def open_one(**environ: str) -> CeleryShop:
        opened.append(CeleryShop(server.url, TASKS, "error", tmp_path / "shop", **environ))
        return opened[-1]

    yield open_one
    for shop in opened:
        shop.close()


@pytest.fixture
def host(server: PrivateRedis, tmp_path: Path) -> Iterator[Host]:
    """Give a host with a service on the error queue of the same broker."""
    settings = {
        "broker": {"url": server.url},
        "database": {"url": sqlite_url(tmp_path)},
        "api": {"port": 0},
    }
    with hosted(tmp_path, settings, ForkingHost) as host:
        yield host


@pytest.fixture
def service(host: Host) -> Service:
    """Give the running service."""
    return host.start()


def test_a_failed_task_is_grouped_retried_in_its_priority_and_resolved(
    open_shop: Callable[..., CeleryShop], service: Service, server: PrivateRedis
) -> None:
    # Given a task that is acknowledged before the work and one that is after it, both urgent, which
    # failed for good; and no worker any more
    shop = open_shop()
    shop.break_down()
    shop.start()
    ids = [shop.send(task, 1, priority=3) for task in ("shop.pack", "shop.pack_late")]
    wait_for_status(service, "unresolved", *ids)
    shop.stop()

    # Then each is in a group under the name of its task, with its traceback
    with service.http as http:
        groups = http.get("/api/recoverability/groups/Message Type").json()
    assert sorted(each["title"] for each in groups) == ["shop.pack", "shop.pack_late"]
    assert all("in pack_or_fail" in str(each) for each in messages(service).values())

    # When they are retried
    shop.repair()
    retry_all(service)

    # Then they lie in the queue as urgent ones, run with a worker, and are resolved
    with closing(server.client()) as client:
        wait_until(lambda: client.llen(URGENT) == len(ids), 60, "both are urgent")
    shop.start("threads")
    for each in ids:
        shop.wait_for(f"packed {each} 1")
    wait_for_status(service, "resolved", *ids)


def test_a_retry_outlives_a_worker_and_a_service_that_are_killed_over_it(
    open_shop: Callable[..., CeleryShop], host: Host
) -> None:
    # Given a task that failed, acknowledged after the work, and was retried
    shop, service = open_shop(VISIBILITY="2"), host.start()
    (shop.folder / "go").touch()
    shop.break_down()
    shop.start("threads")
    task = shop.send("shop.hang", 1)
    wait_for_status(service, "unresolved", task)
    shop.repair()
    (shop.folder / "go").unlink()
    retry_all(service)
    shop.wait_for(f"hang {task} 1", times=2)

    # When the worker and the service are killed while it runs, and others are started
    shop.kill()
    service.kill()
    (shop.folder / "go").touch()
    shop.start("threads")
    after = host.start()

    # Then Redis gives the task out again, it runs to its end, and is resolved
    shop.wait_for(f"packed {task} 1")
    wait_for_status(after, "resolved", task)
