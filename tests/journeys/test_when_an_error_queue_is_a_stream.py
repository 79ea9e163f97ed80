"""A stream among the error queues: it keeps what is taken off it, so that nothing would ever end."""

from collections.abc import Iterator

import pytest
from typer.testing import CliRunner

from retrier.cli import app
from tests.journeys.conftest import RABBITMQ_AND_POSTGRES, Site
from tests.support.waiting import wait_until

pytestmark = RABBITMQ_AND_POSTGRES

READABLE = 3


@pytest.fixture
def kind() -> str:
    """Name the type of the other queues."""
    return "quorum"


@pytest.fixture
def stream(site: Site) -> Iterator[str]:
    """Give a stream that holds messages and is listed as an error queue, beside another one."""
    name = f"{site.shop.error}.stream"
    site.shop.declare(name, {"x-queue-type": "stream"})
    site.host.configure("ingestion", error_queues=[site.shop.error, name])
    for _ in range(READABLE):
        site.shop.channel.basic_publish("", name, b"?")
    yield name
    site.shop.delete(name)


def test_check_refuses_it_by_its_type(site: Site, stream: str) -> None:
    config = str(site.host.config)
    CliRunner().invoke(app, ["db", "upgrade", "--config", config])

    result = CliRunner().invoke(app, ["check", "--config", config])

    assert f"error queue {stream}: it is a stream" in result.output
    assert result.exit_code == 2


def test_nothing_is_taken_off_it_and_the_other_error_queues_go_on(site: Site, stream: str) -> None:
    site.shop.fail(READABLE)

    service = site.host.start()
    wait_until(lambda: service.find("service.started"), 30, "the service is up")

    # Then what failed elsewhere is stored, and the stream is named with the reason
    stored = "SELECT count(*) FROM failed_messages"
    wait_until(lambda: site.count(stored) == READABLE, 30, "the other error queue is ingested")
    wait_until(lambda: service.find("ingestion.paused"), 30, "the stream is refused")
    with service.http as http:
        ready = http.get("/health/ready")
    assert ready.status_code == 503
    assert f"{stream}: it is a stream" in ready.text
    assert site.count("SELECT count(*) FROM failed_imports") == 0
