"""Tasks of real Celery workers on RabbitMQ: they fail, are seen, sent back, and run again."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.celery_site import messages, retry_all, wait_for_status
from tests.support.celery_workers import CeleryShop
from tests.support.examples import EXAMPLES
from tests.support.service import Service

pytestmark = [pytest.mark.rabbitmq, pytest.mark.journey]

ORDERS = {"json": {"number": 1}, "pickle": {b"\xff"}}
"""JSON has neither sets nor bytes. A set of one: the text of a longer one differs by process."""
KILLS = pytest.mark.kills
EACH = [
    pytest.param("json", "prefork", "classic", id="json in processes"),
    pytest.param("pickle", "threads", "classic", id="pickle in threads"),
    pytest.param("json", "threads", "classic", id="json in threads", marks=KILLS),
    pytest.param("pickle", "prefork", "classic", id="pickle in processes", marks=KILLS),
    pytest.param("json", "prefork", "quorum", id="quorum queue, processes", marks=KILLS),
    pytest.param("json", "threads", "quorum", id="quorum queue, threads", marks=KILLS),
]


@pytest.mark.parametrize(("serializer", "pool", "kind"), EACH)
def test_a_task_that_failed_for_good_is_grouped_retried_and_resolved(
    serializer: str,
    pool: str,
    kind: str,
    open_shop: Callable[..., CeleryShop],
    service: Service,
) -> None:
    # Given two tasks that failed twice by their own retries, and then for good: one acknowledged
    # before the work, one after it
    order, shop = ORDERS[serializer], open_shop(serializer, QUEUE_TYPE=kind)
    shop.break_down()
    shop.start(pool)
    ids = [shop.send(task, order) for task in ("shop.pack", "shop.pack_late")]
    wait_for_status(service, "unresolved", *ids)
    assert [shop.told.count(f"run {each} {order!r}") for each in ids] == [3, 3]

    # Then each is in a group under the name of its task, and its sheet has the traceback
    with service.http as http:
        groups = http.get("/api/recoverability/groups/Message Type").json()
    assert sorted(each["title"] for each in groups) == ["shop.pack", "shop.pack_late"]
    for task, name in zip(ids, ("shop.pack", "shop.pack_late"), strict=True):
        found = messages(service)[task]
        assert found["message_type"] == name
        assert "in pack_or_fail" in str(found)

    # When the shop is repaired, and they are retried
    shop.repair()
    retry_all(service)

    # Then they run with the same ids and arguments, and are resolved
    for each in ids:
        shop.wait_for(f"packed {each} {order!r}")
    wait_for_status(service, "resolved", *ids)


def test_what_follows_a_retried_task_is_done_as_well(
    open_shop: Callable[..., CeleryShop], service: Service
) -> None:
    # Given the first of a chain, and a task that hands its work on, both failed
    shop = open_shop()
    shop.break_down()
    shop.start()
    first = shop.send_chain("shop.pack", "shop.send", order=1)
    revised = shop.send("shop.revise", 2)
    wait_for_status(service, "unresolved", first, revised)

    # When they are retried
    shop.repair()
    retry_all(service)

    # Then the chain goes on, the work is handed on, and both are resolved
    shop.wait_for("sent 'packed'")
    shop.wait_for("sent 2")
    wait_for_status(service, "resolved", first, revised)


@pytest.mark.kills
def test_a_retry_outlives_a_worker_that_is_killed_over_it(
    open_shop: Callable[..., CeleryShop], service: Service
) -> None:
    # Given a task that failed, and is acknowledged after the work
    shop = open_shop()
    (shop.folder / "go").touch()
    shop.break_down()
    shop.start()
    task = shop.send("shop.hang", 1)
    wait_for_status(service, "unresolved", task)
    shop.repair()
    (shop.folder / "go").unlink()

    # When the worker is killed while its retry runs, and another one is started
    retry_all(service)
    shop.wait_for(f"hang {task} 1", times=2)
    shop.kill()
    (shop.folder / "go").touch()
    shop.start()

    # Then it runs to its end, and is resolved
    shop.wait_for(f"packed {task} 1")
    wait_for_status(service, "resolved", task)


@pytest.mark.kills
def test_a_retry_waits_for_a_worker_that_is_down(
    open_shop: Callable[..., CeleryShop], service: Service
) -> None:
    # Given a task that failed, acknowledged before the work, and its worker killed since
    shop = open_shop()
    shop.break_down()
    shop.start("threads")
    task = shop.send("shop.pack", 1)
    wait_for_status(service, "unresolved", task)
    shop.kill()

    # When it is retried, and a worker is started later
    shop.repair()
    retry_all(service)
    wait_for_status(service, "retryIssued", task)
    shop.start("threads")

    # Then it is resolved
    wait_for_status(service, "resolved", task)


@pytest.mark.examples
def test_the_five_lines_of_the_page_suffice(
    amqp_url: str,
    queue_name: Callable[..., str],
    error_queue: str,
    service: Service,
    tmp_path: Path,
) -> None:
    # Given the app of the page, whose task fails
    shop = CeleryShop(amqp_url, queue_name("tasks"), error_queue, tmp_path / "shop")
    with closing(shop):
        shop.start(app="celery_app", folder=EXAMPLES, BROKEN="1")
        task = shop.send("shop.pack", 7)
        wait_for_status(service, "unresolved", task)
        shop.kill()

        # When it is retried, on a worker that does not fail
        retry_all(service)
        shop.start(app="celery_app", folder=EXAMPLES)

        # Then it is resolved
        wait_for_status(service, "resolved", task)
        assert "order 7 is packed" in shop.logged
