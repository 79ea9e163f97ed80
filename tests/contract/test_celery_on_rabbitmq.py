"""What a real Celery worker puts on the error queue, and what becomes of a task if it cannot."""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pika
import pytest

from tests.support.celery_workers import DEADLINE, CeleryShop
from tests.support.servers import pika_connection
from tests.support.waiting import wait_until

pytestmark = pytest.mark.rabbitmq


@pytest.fixture
def error_queue(queue_name: Callable[..., str]) -> str:
    """Give a name for an error queue. Nobody has declared it."""
    return queue_name("error")


@pytest.fixture
def shop(
    amqp_url: str, queue_name: Callable[..., str], error_queue: str, tmp_path: Path
) -> Iterator[CeleryShop]:
    """Give a shop that is broken; no worker is started yet."""
    shop = CeleryShop(amqp_url, queue_name("tasks"), error_queue, tmp_path / "shop")
    shop.break_down()
    with closing(shop):
        yield shop


def take_all(url: str, queue: str, number: int) -> dict[str, dict[str, Any]]:
    """Wait for so many messages; return their headers by the name of the task."""
    found: dict[str, dict[str, Any]] = {}
    with closing(pika_connection(url)) as connection:
        channel = connection.channel()

        def take() -> bool:
            _, properties, _ = channel.basic_get(queue, auto_ack=True)
            if isinstance(properties, pika.BasicProperties):
                headers = dict(properties.headers or {})
                found[headers["Retrier.MessageType"]] = headers
            return len(found) == number

        wait_until(take, DEADLINE, f"not all of {number} failures are there")
    return found


def test_every_kind_of_end_is_told_with_its_exception(
    amqp_url: str, error_queue: str, shop: CeleryShop
) -> None:
    # Given tasks that end in ways of which only the worker's main process knows
    with closing(pika_connection(amqp_url)) as connection:
        connection.channel().queue_declare(error_queue, durable=True)
    tasks = ["shop.reject", "shop.die", "shop.dawdle", "shop.unheard_of"]
    for task in tasks:
        shop.send(task, 1)

    # When a worker has taken them
    shop.start()
    found = take_all(amqp_url, error_queue, 4)

    # Then each is on the error queue
    told = {
        task: (each["Retrier.Exception.Type"], each.get("Retrier.Reason"))
        for task, each in found.items()
    }
    assert told == {
        "shop.reject": ("Unpaid", None),
        "shop.die": ("WorkerLostError", None),
        "shop.dawdle": ("TimeLimitExceeded", "timeout_exceeded"),
        "shop.unheard_of": ("NotRegistered", None),
    }


def test_without_an_error_queue_a_task_ends_as_without_us(
    error_queue: str, shop: CeleryShop
) -> None:
    # Given no error queue, and a task that is acknowledged after the work
    task = shop.send("shop.pack_late", 1)

    # When it has failed for good
    shop.start("threads")
    shop.wait_for("failure_not_published shop.pack_late")

    # Then it is acknowledged, and the log says where its failure is not
    wait_until(lambda: f"Task shop.pack_late[{task}] raised" in shop.logged, DEADLINE)
    reason = f"NotTaken: there is no queue {error_queue}"
    assert f"shop.pack_late ({task}) is not on the error queue: {reason}" in shop.logged
    shop.stop()
    assert shop.count_waiting() == 0


def test_a_confirmation_that_nobody_takes_leaves_the_task_successful(
    error_queue: str, shop: CeleryShop
) -> None:
    # Given the retry of a task, and no queue for confirmations
    shop.repair()
    retry = {
        "ServiceControl.Retry.UniqueMessageId": "8a7b",
        "ServiceControl.Retry.AcknowledgementQueue": error_queue,
    }
    task = shop.send("shop.pack", 1, headers=retry)

    # When it runs
    shop.start("threads")
    shop.wait_for("retry_not_confirmed shop.pack")

    # Then it has succeeded
    wait_until(lambda: f"Task shop.pack[{task}] succeeded" in shop.logged, DEADLINE)
