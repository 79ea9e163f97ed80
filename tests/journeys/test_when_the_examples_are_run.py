"""The programs of docs/examples: what they publish is read, and what they confirm is resolved."""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from retrier.domain.failed_message import Failure
from retrier.ingestion.parsing import QueueMapping, parse
from retrier.transport.embedded import EmbeddedTransport
from retrier.transport.rabbitmq import RabbitMQTransport
from retrier.transport.seam import Transport
from tests.support.databases import sqlite_url
from tests.support.examples import EXAMPLES, running
from tests.support.forked_service import ForkingHost
from tests.support.raw_messages import RECEIVED_AT
from tests.support.receiving import receive
from tests.support.servers import pika_connection
from tests.support.service import Host, Service, hosted
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.journey, pytest.mark.examples]

CONSUMERS = sorted(path.name for path in EXAMPLES.iterdir() if "onsume" in path.name)
CONFIRMING = sorted(path.name for path in EXAMPLES.iterdir() if "onfirm" in path.name)
PUBLISHERS = sorted(path.name for path in EXAMPLES.glob("publish_*"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give the folder in which an example runs."""
    folder = tmp_path / "example"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("name", [*CONSUMERS, *PUBLISHERS, *CONFIRMING])
def test_an_example_begins_with_what_must_be_installed(name: str) -> None:
    first = (EXAMPLES / name).read_text().splitlines()[0]

    assert first.removeprefix("<?php ").lstrip('/"# ').startswith("Install: ")


@pytest.mark.rabbitmq
@pytest.mark.parametrize("name", PUBLISHERS)
def test_a_publisher_makes_its_queue_and_puts_a_failure_on_it(
    name: str, amqp_url: str, queue_name: Callable[..., str], folder: Path
) -> None:
    queue = queue_name("error")
    url = amqp_url if "kombu" in name else of_a_client(amqp_url)

    with running(name, folder, url, queue) as example:
        example.wait_for_its_end()

    assert_one_failure(RabbitMQTransport(amqp_url, connection_name="examples"), queue)


@pytest.mark.rabbitmq
@pytest.mark.parametrize("name", PUBLISHERS)
def test_a_publisher_leaves_a_queue_of_another_kind_as_it_is(
    name: str, amqp_url: str, queue_name: Callable[..., str], folder: Path
) -> None:
    queue = queue_name("error")
    url = amqp_url if "kombu" in name else of_a_client(amqp_url)
    with closing(pika_connection(amqp_url)) as connection:
        quorum = {"x-queue-type": "quorum"}
        connection.channel().queue_declare(queue, durable=True, arguments=quorum)

    with running(name, folder, url, queue) as example:
        example.wait_for_its_end()

    assert_one_failure(RabbitMQTransport(amqp_url, connection_name="examples"), queue)


def test_the_publisher_with_kombu_makes_its_queue_on_the_embedded_broker(
    tmp_path: Path, folder: Path
) -> None:
    url = f"embedded:///{tmp_path}/broker.db"

    with running("publish_failed_kombu.py", folder, url) as example:
        example.wait_for_its_end()

    assert_one_failure(EmbeddedTransport(url), "error")


def of_a_client(url: str) -> str:
    """Return the URL as most clients read it: the default virtual host is written out."""
    return f"{url.removesuffix('//')}/%2F" if url.endswith("//") else url


def assert_one_failure(transport: Transport, queue: str) -> None:
    consumer = transport.consumer(queue, 1)
    (delivery,) = receive(consumer, 1)
    consumer.ack([delivery])
    consumer.close()
    found = parse(delivery, transport.codec, QueueMapping(queue=queue), RECEIVED_AT)
    assert isinstance(found, Failure), found
    assert (found.dialect, found.details.destination) == ("retrier", "orders")


@pytest.fixture
def orders(amqp_url: str, queue_name: Callable[..., str]) -> Iterator[str]:
    """Give the name of the work queue; the example declares it and its dead-letter queue."""
    queue = queue_name("orders")
    yield queue
    with closing(pika_connection(amqp_url)) as connection:
        channel = connection.channel()
        channel.queue_delete(f"{queue}.dead")
        for each in (queue, f"{queue}.dead"):
            channel.exchange_delete(each)


@pytest.fixture
def host(
    amqp_url: str, queue_name: Callable[..., str], orders: str, tmp_path: Path
) -> Iterator[Host]:
    """Give a host whose services take from the dead-letter queue of the example."""
    instance = queue_name("instance")
    staging_queue = f"{instance}.staging"
    settings = {
        "instance": instance,
        "broker": {"url": amqp_url},
        "database": {"url": sqlite_url(tmp_path)},
        # Symfony names its transport, and no queue.
        "ingestion": {
            "error_queues": [{"queue": f"{orders}.dead", "destinations": {"async": orders}}]
        },
        "api": {"port": 0},
    }
    with hosted(tmp_path, settings, ForkingHost) as host:
        yield host
    with closing(pika_connection(amqp_url)) as connection:
        connection.channel().queue_delete(staging_queue)


def only_message(service: Service) -> dict[str, Any]:
    with service.http as http:
        found: list[dict[str, Any]] = http.get("/api/errors").json()
    return found[0] if found else {}


@pytest.mark.rabbitmq
@pytest.mark.parametrize("name", CONSUMERS)
def test_a_consumer_handles_what_it_rejected_and_confirms_it(
    name: str, amqp_url: str, orders: str, host: Host, folder: Path
) -> None:
    # Given an order that its consumer has rejected
    url = of_a_client(amqp_url)
    with running(name, folder, url, "fail", orders) as example:
        assert "rejected" in example.wait_for_its_end()
    service = host.start_ready()
    wait_until(lambda: only_message(service), 30, "the order is stored")
    assert only_message(service)["queue_address"] == orders

    # When it is sent back, and the consumer handles it
    with service.http as http:
        assert http.post("/api/errors/retry/all").status_code == 202
    with running(name, folder, url, "handle", orders) as example:
        example.wait_until_it_says("confirmed")
        assert "handled" in example.told

        # Then its confirmation resolves it
        wait_until(lambda: only_message(service)["status"] == "resolved", 30, "it is resolved")


@pytest.mark.rabbitmq
@pytest.mark.parametrize("name", [each for each in CONSUMERS if "_with_" in each])
def test_a_retry_that_fails_again_in_a_library_comes_back_and_is_counted(
    name: str, amqp_url: str, orders: str, host: Host, folder: Path
) -> None:
    # Given an order that failed and was sent back
    url = of_a_client(amqp_url)
    with running(name, folder, url, "fail", orders) as example:
        example.wait_for_its_end()
    service = host.start_ready()
    wait_until(lambda: only_message(service), 30, "the order is stored")
    order_id = only_message(service)["id"]
    with service.http as http:
        assert http.post("/api/errors/retry/all").status_code == 202
    wait_until(lambda: only_message(service)["status"] == "retryIssued", 30, "it is sent back")

    # When the library gives it up again
    with running(name, folder, url, "fail", orders) as example:
        example.wait_for_its_end()

    # Then it is the same message, with one attempt more
    wait_until(lambda: attempts_of(service, order_id) == 2, 30, "it is counted")


def attempts_of(service: Service, message_id: str) -> int:
    with service.http as http:
        found: dict[str, Any] = http.get(f"/api/errors/{message_id}").json()
    return len(found["processing_attempts"]) if found["status"] == "unresolved" else 0
