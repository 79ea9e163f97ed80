"""The queue of a worker is listed as an error queue: it dead-letters, and it is consumed."""

import pytest
from typer.testing import CliRunner

from retrier.cli import app
from tests.journeys.conftest import RABBITMQ_AND_POSTGRES, Site
from tests.support.waiting import wait_until

pytestmark = RABBITMQ_AND_POSTGRES


@pytest.fixture(params=["classic", "quorum"])
def kind(request: pytest.FixtureRequest) -> str:
    """Name the type of all queues."""
    return str(request.param)


@pytest.fixture
def work_queue(site: Site) -> str:
    """Give a queue with a dead-letter exchange, whose worker has a message in hand."""
    site.shop.dead_letter(0)
    site.shop.channel.basic_qos(prefetch_count=1)
    site.shop.channel.basic_consume(site.shop.payments, lambda *_: None)
    site.shop.channel.connection.process_data_events(time_limit=0)
    for _ in range(3):
        site.shop.channel.basic_publish("", site.shop.payments, b"work")
    site.host.configure("ingestion", error_queues=[site.shop.error, site.shop.payments])
    return str(site.shop.payments)


def test_nothing_is_taken_off_it(site: Site, work_queue: str) -> None:
    site.shop.fail(1)

    service = site.host.start()
    wait_until(lambda: service.find("ingestion.paused"), 30, "the work queue is refused")

    # Then the other error queue is ingested, and the work queue keeps what it has
    stored = "SELECT count(*) FROM failed_messages"
    wait_until(lambda: site.count(stored) == 1, 30, "the other error queue is ingested")
    with service.http as http:
        ready = http.get("/health/ready")
    assert ready.status_code == 503
    words = f"{work_queue} has a dead-letter exchange and 1 consumer: it looks like a work queue"
    assert words in ready.text
    assert site.shop.depth(work_queue) == 2
    assert site.count("SELECT count(*) FROM failed_imports") == 0


def test_check_refuses_it(site: Site, work_queue: str) -> None:
    CliRunner().invoke(app, ["db", "upgrade", "--config", str(site.host.config)])

    result = CliRunner().invoke(app, ["check", "--config", str(site.host.config)])

    assert "it looks like a work queue. Retrier would take its messages" in result.output
    assert result.exit_code == 2
    assert site.shop.depth(work_queue) == 2


def test_it_is_ingested_if_its_entry_says_so(site: Site, work_queue: str) -> None:
    entry = {"queue": work_queue, "take_from_work_queue": True}
    site.host.configure("ingestion", error_queues=[site.shop.error, entry])

    service = site.host.start_ready()

    wait_until(lambda: site.shop.depth(work_queue) == 0, 30, "its messages are taken")
    assert service.find("ingestion.queue_doubtful") == []


def test_one_that_is_consumed_and_does_not_dead_letter_is_ingested_with_a_warning(
    site: Site,
) -> None:
    site.shop.channel.basic_consume(site.shop.error, lambda *_: None)
    site.shop.channel.connection.process_data_events(time_limit=0)

    service = site.host.start_ready()

    (warned,) = service.find("ingestion.queue_doubtful")
    assert f"{site.shop.error} has 1 consumer already" in warned["message"]
