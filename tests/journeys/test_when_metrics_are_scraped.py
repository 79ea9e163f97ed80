"""Health and metrics of real processes: the figures are what really happened."""

import socket
from pathlib import Path

import httpx
import pytest
import yaml
from prometheus_client.samples import Sample

from tests.journeys.conftest import RABBITMQ_AND_POSTGRES, Site
from tests.support.metrics import Scrape
from tests.support.waiting import wait_until

pytestmark = pytest.mark.journey

ONE_IS_ENOUGH = pytest.mark.parametrize("kind", ["embedded"], indirect=True)
NOT_THERE = "a.queue.that.is.not.there"


@pytest.fixture(params=[pytest.param("quorum", marks=RABBITMQ_AND_POSTGRES), "embedded"])
def kind(request: pytest.FixtureRequest) -> str:
    """One type of queue is enough here."""
    return str(request.param)


def scrape(http: httpx.Client) -> Scrape:
    answer = http.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["Content-Type"].startswith("text/plain; version=")
    return Scrape(answer.text)


def test_the_figures_are_what_happened(site: Site) -> None:
    # Given 20 messages that failed, 2 of them on a queue that is gone, and one that is nonsense
    site.shop.fail(18)
    site.shop.fail(2, queue=NOT_THERE)
    site.shop.put_nonsense()
    with site.host.start_ready().http as http:
        wait_until(lambda: http.get("/api/errors").headers["Total-Count"] == "20", 60)

        # When all are retried, 5 are confirmed and 3 fail again
        http.post("/api/errors/retry/all")
        sent = site.shop.take(site.shop.orders, 18)
        wait_until(lambda: site.count("SELECT count(*) FROM retry_batches") == 0, 30)
        for each in sent[:5]:
            site.shop.confirm(each)
        for each in sent[5:8]:
            site.shop.fail_again(each)

        # Then each figure says so, as soon as the database is looked at again
        seen = FIGURES | {f'retrier_ingestion_consuming{{queue="{site.shop.error}"}}': 1}
        seen |= {ingested(site.shop.error, kind): number for kind, number in INGESTED.items()}
        wait_until(lambda: seen.items() <= figures(http).items(), 30, "the figures are right")
        assert figures(http)["retrier_oldest_unresolved_age_seconds"] > 0


FIGURES = {
    "retrier_retries_asked_total": 20,
    "retrier_retries_forwarded_total": 18,
    'retrier_retries_reverted_total{cause="returned"}': 2,
    'retrier_retries_reverted_total{cause="refused"}': 0,
    'retrier_retries_reverted_total{cause="ejected"}': 0,
    "retrier_retries_confirmed_total": 5,
    "retrier_retries_failed_again_total": 3,
    'retrier_stage_duration_seconds_count{stage="marking"}': 1,
    'retrier_stage_duration_seconds_count{stage="staging"}': 1,
    'retrier_stage_duration_seconds_count{stage="forwarding"}': 1,
    'retrier_messages{state="unresolved"}': 5,
    'retrier_messages{state="retry_issued"}': 10,
    'retrier_messages{state="resolved"}': 5,
    'retrier_messages{state="archived"}': 0,
    'retrier_operations{state="forwarding"}': 0,
    'retrier_batches{state="forwarding"}': 0,
    "retrier_failed_imports": 1,
    'retrier_ledger_difference{of="deliveries"}': 0,
    'retrier_ledger_difference{of="messages"}': 0,
    'retrier_ready{part="database"}': 1,
    'retrier_ready{part="broker"}': 1,
    'retrier_ready{part="ingestion"}': 1,
    'retrier_ready{part="processor"}': 1,
    "retrier_leader": 1,
    "retrier_lease_epoch": 1,
    "retrier_database_up": 1,
    "retrier_broker_up": 1,
}
INGESTED = {
    "new": 20,
    "repeated": 3,
    "redelivered": 0,
    "confirmations": 5,
    "own_copies": 0,
    "failed_imports": 1,
}


def ingested(queue: str, kind: str) -> str:
    return f'retrier_ingested_total{{kind="{kind}",queue="{queue}"}}'


def figures(http: httpx.Client) -> dict[str, float]:
    """Return every sample as a line of Prometheus writes its name."""
    return {write(each): each.value for each in scrape(http).samples()}


def write(sample: Sample) -> str:
    labels = ",".join(f'{name}="{value}"' for name, value in sorted(sample.labels.items()))
    return f"{sample.name}{{{labels}}}" if labels else sample.name


@ONE_IS_ENOUGH
def test_the_depth_of_the_queues_is_seen(site: Site) -> None:
    # Given a process that ingests nothing from the queues
    service = site.host.start_ready("api")
    site.shop.fail(7)

    with service.http as http:
        depth = "retrier_error_queue_messages"
        wait_until(lambda: scrape(http).get(depth, queue=site.shop.error) == 7, 25)


@ONE_IS_ENOUGH
def test_a_process_without_the_api_tells_health_and_metrics_only(site: Site) -> None:
    service = site.host.start("ingestion")
    service.wait_ready()

    with service.http as http:
        assert http.get("/health").status_code == 200
        parts = http.get("/health/ready").json()["parts"]
        assert set(parts) == {"database", "broker", "ingestion", "processes"}
        seen = scrape(http)
        assert http.get("/api/errors").status_code == 404
        assert http.post("/api/errors/retry/all").status_code == 404
    assert seen.get("retrier_leader") == 0
    assert seen.get("retrier_ingestion_consuming", queue=site.shop.error) == 1


@ONE_IS_ENOUGH
def test_a_standby_is_ready_and_leads_not(site: Site) -> None:
    site.host.start_ready()
    standby = site.host.start_ready()
    wait_until(lambda: "processor.waiting_for_lease" in standby.names(), 30)

    with standby.http as http:
        answer = http.get("/health/ready")
        seen = scrape(http)

    assert answer.status_code == 200
    assert "another processor holds the lease" in answer.json()["parts"]["processor"]["reason"]
    assert (seen.get("retrier_leader"), seen.get("retrier_lease_epoch")) == (0, 1)


@ONE_IS_ENOUGH
def test_a_port_that_is_taken_stops_only_a_process_with_the_api(site: Site) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        take_port(site.host.config, other.getsockname()[1])
        site.shop.fail(1)

        api = site.host.start("api")
        ingestion = site.host.start("ingestion")

        assert api.wait_dead() == 3
        wait_until(lambda: "health.not_listening" in ingestion.names(), 30)
        wait_until(lambda: "ingestion.started" in ingestion.names(), 30)
        wait_until(lambda: site.count("SELECT count(*) FROM failed_messages") == 1, 30)
        assert ingestion.stop() == 0


def take_port(config: Path, port: int) -> None:
    settings = yaml.safe_load(config.read_text())
    config.write_text(yaml.safe_dump(settings | {"api": {"port": port}}))
