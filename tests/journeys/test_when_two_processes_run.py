"""One processor on a database: a second one waits, says so, and takes over."""

import signal
from time import monotonic

import pytest

from tests.journeys.conftest import Site
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.journey, pytest.mark.rabbitmq, pytest.mark.postgres]

AT_ONCE = 12
"""Seconds: less than a lease of 15, at whose end a standby takes over in any case."""


@pytest.fixture
def kind() -> str:
    """One type of queue is enough here."""
    return "quorum"


def test_a_second_processor_waits_and_says_for_whom(site: Site) -> None:
    first = site.host.start_ready()
    second = site.host.start_ready()

    wait_until(lambda: "processor.waiting_for_lease" in second.names(), 30)

    with second.http as http:
        assert f"process {first.pid}" in http.get("/health/ready").text
    assert second.names().count("processor.waiting_for_lease") == 1
    assert "processor.lease_acquired" not in second.names()


def test_a_killed_processor_of_this_host_is_replaced_at_once(site: Site) -> None:
    first = site.host.start_ready()
    second = site.host.start_ready()
    wait_until(lambda: "processor.waiting_for_lease" in second.names(), 30)

    first.kill()

    wait_until(lambda: "processor.lease_acquired" in second.names(), AT_ONCE)


def test_a_processor_that_stops_hands_the_lease_over(site: Site) -> None:
    first = site.host.start_ready()
    second = site.host.start_ready()
    wait_until(lambda: "processor.waiting_for_lease" in second.names(), 30)

    assert first.stop() == 0

    wait_until(lambda: "processor.lease_acquired" in second.names(), AT_ONCE)


@pytest.mark.alone
def test_a_request_to_one_process_is_carried_out_by_another_at_once(site: Site) -> None:
    site.shop.fail(5)
    site.host.start("ingestion", "processor")
    api = site.host.start_ready("api")
    with api.http as http:
        wait_until(lambda: http.get("/api/errors").headers["Total-Count"] == "5", 30)
        listed = http.get("/api/errors").json()

        began = monotonic()
        for count, each in enumerate(listed, start=1):
            http.post(f"/api/errors/{each['id']}/retry")
            wait_until(lambda n=count: site.shop.depth(site.shop.orders) == n, 5)

    # A look every few seconds would take longer for five requests, each after the one before.
    assert monotonic() - began < 3


@pytest.mark.alone
def test_a_second_signal_ends_the_process_at_once(site: Site) -> None:
    service = site.host.start_ready()

    service.process.send_signal(signal.SIGTERM)
    wait_until(lambda: "service.stopping" in service.names(), 5)
    service.process.send_signal(signal.SIGTERM)

    assert service.wait_dead(2) in (0, 1)
