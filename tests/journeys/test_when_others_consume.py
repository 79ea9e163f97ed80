"""Somebody else consumes the error queue and keeps what is on it: told by name, healed by itself."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from tests.journeys.conftest import Site
from tests.support.servers import pika_connection
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.journey, pytest.mark.rabbitmq, pytest.mark.postgres]

TOLD_WITHIN = 45
"""Seconds: 15 in which nothing is handed out, and looks at the queue every 10."""
STORED = "SELECT count(*) FROM failed_messages"


@contextmanager
def other_consumer(amqp_url: str, queue: str, *, exclusive: bool) -> Iterator[None]:
    """Consume a queue, take one message off it at a time, and acknowledge none."""
    connection = pika_connection(amqp_url)
    channel = connection.channel()
    channel.basic_qos(prefetch_count=1)
    channel.basic_consume(queue, lambda *_message: None, exclusive=exclusive)
    connection.process_data_events(0)
    try:
        yield
    finally:
        connection.close()


def told(http: httpx.Client) -> dict[str, Any]:
    part: dict[str, Any] = http.get("/health/ready").json()["parts"]["ingestion"]
    return part


@pytest.mark.parametrize("kind", ["classic"])
def test_a_queue_in_exclusive_use_is_named_until_it_is_free(site: Site, amqp_url: str) -> None:
    with other_consumer(amqp_url, site.shop.error, exclusive=True):
        service = site.host.start()
        site.shop.fail(3)

        with service.http as http:
            wait_until(lambda: "in exclusive use" in told(http)["reason"], TOLD_WITHIN)
            assert site.shop.error in told(http)["reason"]
            assert not told(http)["ok"]

    service.wait_ready()
    wait_until(lambda: site.count(STORED) == 3, 30, "all are stored")
    assert service.names().count("ingestion.paused") == 1


@pytest.mark.parametrize("kind", [pytest.param("classic", marks=pytest.mark.kills), "quorum"])
def test_a_queue_whose_only_active_consumer_is_another_is_named(site: Site, amqp_url: str) -> None:
    shop = site.shop
    shop.delete(shop.error)
    shop.declare(shop.error, {"x-single-active-consumer": True})
    with other_consumer(amqp_url, shop.error, exclusive=False):
        service = site.host.start_ready()
        shop.fail(3)

        with service.http as http:
            wait_until(
                lambda: "another consumer is the active one" in told(http)["reason"], TOLD_WITHIN
            )
            assert told(http)["reason"].startswith(f"{shop.error}: 2 messages are ready")
            assert not told(http)["ok"]

    wait_until(lambda: site.count(STORED) == 3, 30, "all are stored")
    with service.http as http:
        wait_until(lambda: told(http)["ok"], 30, "it is consuming again")
