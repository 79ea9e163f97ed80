"""An error queue is listed that does not exist: a mistyped name, or nobody has declared it yet."""

from collections.abc import Callable

import pika.exceptions
import pytest
from typer.testing import CliRunner

from retrier.cli import app
from tests.journeys.conftest import RABBITMQ_AND_POSTGRES, Site
from tests.support.waiting import wait_until

pytestmark = RABBITMQ_AND_POSTGRES


@pytest.fixture
def kind() -> str:
    """Name the type of all queues: not the one that Retrier would declare."""
    return "classic"


@pytest.fixture
def missing(site: Site, queue_name: Callable[..., str]) -> str:
    """Give the name of an error queue that is listed beside the shop's, and does not exist."""
    name = queue_name("missing")
    site.host.configure("ingestion", error_queues=[site.shop.error, name])
    return name


def is_there(site: Site, queue: str) -> bool:
    with site.shop.channel.connection.channel() as channel:
        try:
            channel.queue_declare(queue, passive=True)
        except pika.exceptions.ChannelClosedByBroker:
            return False
    return True


def test_it_is_not_declared_but_named_and_ingested_once_it_is_there(
    site: Site, missing: str
) -> None:
    site.shop.fail(1)

    service = site.host.start()
    wait_until(lambda: service.find("ingestion.queue_missing"), 30, "it is told that it is missing")

    # Then the other one is ingested, and readiness names the missing one
    stored = "SELECT count(*) FROM failed_messages"
    wait_until(lambda: site.count(stored) == 1, 30, "the other error queue is ingested")
    with service.http as http:
        ready = http.get("/health/ready")
    assert ready.status_code == 503
    assert f"{missing}: does not exist: declare it, or set" in ready.text
    assert not is_there(site, missing)

    # When the application declares it, with arguments of its own, nothing is in its way
    site.shop.declare(missing, {"x-max-length": 1000})
    service.wait_ready()
    assert service.find("ingestion.paused") == []


def test_check_names_it_and_does_not_declare_it(site: Site, missing: str) -> None:
    CliRunner().invoke(app, ["db", "upgrade", "--config", str(site.host.config)])

    result = CliRunner().invoke(app, ["check", "--config", str(site.host.config)])

    assert f"error queue {missing}: does not exist: declare it, or set" in result.output
    assert result.exit_code == 2
    assert not is_there(site, missing)


def test_it_is_declared_if_the_settings_say_so(site: Site, missing: str) -> None:
    site.host.configure("ingestion", declare_missing=True)

    site.host.start_ready()

    assert is_there(site, missing)
