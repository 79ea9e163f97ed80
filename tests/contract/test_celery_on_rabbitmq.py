"""What a real Celery worker puts on the error queue, and what becomes of a task if it cannot."""

import socket
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
    shop.start(node="packers@%h", NAME="shop")
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

    # And where it was, which is no part of the name of the application
    box = socket.gethostname()
    assert {each["Retrier.Endpoint"] for each in found.values()} == {"shop"}
    assert {each["Retrier.Host"] for each in found.values()} == {box}
    assert {each["Retrier.Node"] for each in found.values()} == {f"packers@{box}"}
    processes = {task: int(each["Retrier.Process"]) for task, each in found.items()}
    assert processes["shop.die"] != processes["shop.unheard_of"]


def test_what_a_task_had_done_is_said_with_its_failure(
    amqp_url: str, error_queue: str, shop: CeleryShop
) -> None:
    # Given the retry of a task that has done a step, and does others before it fails
    with closing(pika_connection(amqp_url)) as connection:
        connection.channel().queue_declare(error_queue, durable=True)
    shop.send("shop.reserve", 1, headers={"Retrier.CompletedSteps": "order"})

    # When a worker with processes has taken it
    shop.start()
    found = take_all(amqp_url, error_queue, 1)

    # Then the failure says all of them
    assert found["shop.reserve"]["Retrier.CompletedSteps"] == "order,reserve,pay"
    assert found["shop.reserve"]["Retrier.Endpoint"] == "celery"


def test_a_hard_time_limit_is_one_failure(
    amqp_url: str, error_queue: str, shop: CeleryShop
) -> None:
    # Given a task that exceeds its time limit, one that Celery gives back to the queue for that,
    # and one behind them
    with closing(pika_connection(amqp_url)) as connection:
        connection.channel().queue_declare(error_queue, durable=True)
    for task in ("shop.dawdle", "shop.dawdle_and_return", "shop.reject"):
        shop.send(task, 1)

    # When a worker has taken all
    shop.start()
    shop.wait_for("came again")
    shop.wait_for("failure_published shop.reject")

    # Then the first has one failure, and the second none: it ran again
    published = sorted(line for line in shop.told if line.startswith("failure"))
    assert published == ["failure_published shop.dawdle", "failure_published shop.reject"]


def test_a_task_that_wants_to_end_its_thread_is_published_and_acknowledged(
    amqp_url: str, error_queue: str, shop: CeleryShop
) -> None:
    # Given tasks that raise what is no Exception, one of them acknowledged after the work
    with closing(pika_connection(amqp_url)) as connection:
        connection.channel().queue_declare(error_queue, durable=True)
    for task in ("shop.leave", "shop.interrupt"):
        shop.send(task, 1)

    # When a worker of threads has taken them
    shop.start("threads")
    found = take_all(amqp_url, error_queue, 2)

    # Then each is published with its type, and none is left
    assert {task: each["Retrier.Exception.Type"] for task, each in found.items()} == {
        "shop.leave": "SystemExit",
        "shop.interrupt": "KeyboardInterrupt",
    }
    shop.stop()
    assert shop.count_waiting() == 0


def test_without_an_error_queue_failures_wait_for_it(
    amqp_url: str, error_queue: str, shop: CeleryShop
) -> None:
    # Given no error queue, a task that is acknowledged after the work, and one before it
    late = shop.send("shop.pack_late", 1)
    early = shop.send("shop.reserve", "two boxes")

    # When both have failed for good
    shop.start("threads")
    shop.wait_for("failure_held_back shop.pack_late")
    shop.wait_for("failure_not_published shop.reserve")

    # Then the log says where they are not, and all that is needed to rebuild what nobody keeps
    reason = f"PublishRefused: there is no queue {error_queue}"
    assert f"({late}) is not there yet" in shop.logged
    assert reason in shop.logged
    said = (
        f"ERROR/MainProcess] the failure of task shop.reserve ({early}) is not on the error queue"
    )
    (line,) = [each for each in shop.logged.splitlines() if said in each]
    assert all(word in line for word in ('"task": "shop.reserve"', "two boxes", '"headers": {'))

    # And they are published as soon as there is a queue, and only then acknowledged
    with closing(pika_connection(amqp_url)) as connection:
        connection.channel().queue_declare(error_queue, durable=True)
    take_all(amqp_url, error_queue, 2)
    shop.wait_for("failure_published shop.pack_late")
    shop.stop()
    assert shop.count_waiting() == 0


def test_what_is_held_back_comes_again_after_a_stop(shop: CeleryShop) -> None:
    # Given no error queue, and a task that has failed for good, acknowledged after the work
    shop.send("shop.pack_late", 1)
    shop.start()
    shop.wait_for("failure_held_back shop.pack_late")

    # When the worker is stopped
    shop.stop()

    # Then the broker has the task
    wait_until(lambda: shop.count_waiting() == 1, DEADLINE)


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
