"""An error queue is deleted while the service runs."""

import httpx
import pika.exceptions
import pytest

from tests.journeys.conftest import RABBITMQ_AND_POSTGRES, Site
from tests.support.waiting import wait_until

pytestmark = RABBITMQ_AND_POSTGRES


@pytest.fixture
def kind() -> str:
    """Name the type of all queues."""
    return "quorum"


def test_it_is_declared_again_and_what_fails_from_then_on_is_ingested(site: Site) -> None:
    site.host.configure("ingestion", declare_missing=True)
    service = site.host.start_ready()

    site.shop.delete(site.shop.error)

    # Then it is there again, without a restart
    wait_until(lambda: service.find("ingestion.resumed"), 30, "it is ingested again")
    site.shop.fail(1)
    stored = "SELECT count(*) FROM failed_messages"
    wait_until(lambda: site.count(stored) == 1, 30, "the failure is stored")
    assert len(service.find("ingestion.paused")) == 1


def test_without_leave_to_declare_it_is_named_and_ingested_once_it_is_there(site: Site) -> None:
    service = site.host.start_ready()

    site.shop.delete(site.shop.error)

    # Then it is told once that it is missing, readiness says so, and it stays missing
    wait_until(lambda: service.find("ingestion.queue_missing"), 30, "its loss is told")
    with service.http as http:
        ready = http.get("/health/ready")
        wait_until(lambda: exists_of(http) == "0.0", 30, "the metric shows that it is missing")
    assert ready.status_code == 503
    assert f"{site.shop.error}: does not exist" in ready.text
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="404"):
        site.shop.depth(site.shop.error)

    # When somebody declares it, the same process goes on
    site.shop.channel = site.shop.channel.connection.channel()
    site.shop.declare(site.shop.error)
    service.wait_ready()
    site.shop.fail(1)
    stored = "SELECT count(*) FROM failed_messages"
    wait_until(lambda: site.count(stored) == 1, 30, "the failure is stored")
    assert len(service.find("ingestion.queue_missing")) == 1


def exists_of(http: httpx.Client) -> str:
    text = http.get("/metrics").text
    found = [line for line in text.splitlines() if line.startswith("retrier_error_queue_exists{")]
    return found[0].rpartition(" ")[2] if found else ""
