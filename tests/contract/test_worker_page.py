"""The page about the worker: its examples are run, and it names all there is."""

import inspect
import re
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from retrier.worker import Worker
from retrier.worker.outcomes import Reason, TaskStatus
from tests.support.examples import EXAMPLES, running
from tests.support.project import ROOT
from tests.support.waiting import wait_until
from tests.support.worker_outside import EmbeddedOutside, RabbitMQOutside, take_within

PAGE = (ROOT / "docs" / "worker.md").read_text()
SHOWN = re.compile(r"\((examples/[\w.]+)\)[^`]*?\n\n```python\n(.+?)```", re.DOTALL)
ROWS = re.compile(r"^\| `(\w+)` \|", re.MULTILINE)
LOG = "\n## Log and metrics\n"
"""Tables behind it are no arguments."""
OF_TESTS = {"clock", "end"}
"""Arguments that nobody needs but our tests."""


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[tuple[str, EmbeddedOutside]]:
    url = f"embedded:///{tmp_path}/broker.db"
    outside = EmbeddedOutside(url)
    yield url, outside
    outside.close()


@pytest.mark.parametrize(("example", "code"), SHOWN.findall(PAGE))
def test_every_line_that_is_shown_is_in_the_example(example: str, code: str) -> None:
    lines = (EXAMPLES.parent / example).read_text().splitlines()

    assert [line for line in code.splitlines() if line not in lines] == []


def test_two_examples_are_shown() -> None:
    assert [example for example, _ in SHOWN.findall(PAGE)] == [
        "examples/worker.py",
        "examples/handle_once.py",
    ]


def test_the_table_of_arguments_is_whole() -> None:
    arguments = set(inspect.signature(Worker).parameters) - OF_TESTS

    assert set(ROWS.findall(PAGE.partition(LOG)[0])) == arguments


@pytest.mark.parametrize("word", [*TaskStatus, *Reason])
def test_every_status_and_reason_is_named(word: str) -> None:
    assert f"`{word}`" in PAGE


def test_the_worker_in_ten_lines_works(
    embedded: tuple[str, EmbeddedOutside], tmp_path: Path
) -> None:
    # Given an order and a body that is none
    url, outside = embedded
    outside.declare("orders")
    outside.declare("error")
    outside.put("orders", b'{"number": 7}', {}, message_id="order-7")
    outside.put("orders", b"nonsense", {}, message_id="order-8")

    # When the example is run
    with running("worker.py", tmp_path, url, "orders") as example:
        example.wait_until_it_says("order 7 is packed")
        failed = take_within(outside, "error")
        example.process.terminate()
        example.wait_for_its_end()

    # Then one is packed, and the other one failed
    assert failed.properties["message_id"] == "order-8"
    assert failed.headers["Retrier.Endpoint"] == "pack"
    assert failed.headers["Retrier.MessageType"] == "Order"
    assert outside.count("orders") == 0


@pytest.mark.rabbitmq
def test_a_consumer_of_its_own_handles_a_retry_once(
    amqp_url: str, queue_name: Callable[..., str], tmp_path: Path
) -> None:
    queue, confirmations = queue_name("orders"), queue_name("error")
    outside = RabbitMQOutside(amqp_url, "classic")
    outside.declare(confirmations)
    stamps = {
        "Retrier.RetryId": "r-1",
        "ServiceControl.Retry.UniqueMessageId": "m-1",
        "ServiceControl.Retry.AcknowledgementQueue": confirmations,
    }
    url = f"{amqp_url.removesuffix('//')}/%2F" if amqp_url.endswith("//") else amqp_url

    with running("handle_once.py", tmp_path, url, queue) as example:
        wait_until(lambda: exists(outside, queue), 15)
        for body in (b"first", b"second copy"):
            outside.put(queue, body, stamps)
        for body in (b"no retry", b"no retry"):
            outside.put(queue, body, {})
        example.wait_until_it_says("no retry\nhandled no retry")
        confirmed = [take_within(outside, confirmations) for _ in range(2)]

    assert example.told.split("\n")[:-1] == [
        "handled first",
        "handled no retry",
        "handled no retry",
    ]
    assert outside.count(confirmations) == 0
    assert [each.headers["ServiceControl.Retry.UniqueMessageId"] for each in confirmed] == [
        "m-1"
    ] * 2
    assert all("ServiceControl.Retry.Successful" in each.headers for each in confirmed)
    outside.close()
    with sqlite3.connect(tmp_path / "shop.db") as shop:
        assert shop.execute("SELECT * FROM handled").fetchall() == [("r-1",)]


def exists(outside: RabbitMQOutside, queue: str) -> bool:
    try:
        outside.count(queue)
    except Exception:  # noqa: BLE001 - the client has an exception for each way to say it
        return False
    return True
