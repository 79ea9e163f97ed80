"""SIGTERM in the middle of the work: nothing in hand is lost or doubled, and another one goes on."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from time import monotonic

import pytest

from tests.journeys.conftest import ON_BOTH_BROKERS, Site
from tests.support.service import Service
from tests.support.waiting import wait_until

pytestmark = pytest.mark.journey

RETRIED = 1500
ARRIVING = 300
SOON = 10
"""Seconds in which a service told to stop has stopped."""

STORED = "SELECT count(*) FROM failed_messages"
RECORDED = "SELECT count(*) FROM failed_message_retries WHERE forwarded_at IS NOT NULL"
STATES = "SELECT state FROM retry_operations"
HELD = "SELECT count(*) FROM processor_lease WHERE session_id IS NOT NULL"


def begin(site: Site) -> Service:
    """Start a service that has much to forward, and is asked to do it."""
    site.shop.fail(RETRIED)
    service = site.host.start_ready()
    wait_until(lambda: site.count(STORED) == RETRIED, 60, "what shall be retried is stored")
    with service.http as http:
        http.post(f"/api/errors/queues/{site.shop.orders}/retry").raise_for_status()
    return service


def stop(service: Service) -> float:
    """Tell it to stop; return the seconds it took."""
    began = monotonic()
    service.terminate()
    assert service.wait_dead(SOON) == 0
    return monotonic() - began


@pytest.mark.alone
@ON_BOTH_BROKERS
def test_a_stop_under_load_is_quick_and_doubles_nothing(site: Site) -> None:
    first = begin(site)

    # Others fail at the same time: were it first one and then the other, one would be over.
    with ThreadPoolExecutor(1) as shop:
        shop.submit(site.shop.fail, ARRIVING, queue="another")
        wait_until(lambda: site.count(RECORDED) > 0, 30, "some is forwarded")
        seconds = stop(first)
    forwarded, stored = site.count(RECORDED), site.count(STORED)
    print(f"stopped within {seconds:.1f} s at {forwarded} forwarded, {stored} stored")  # noqa: T201 - shown by -rP

    # Then it was in the middle, the lease is free, and another process does the rest
    assert forwarded < RETRIED
    assert site.count(HELD) == 0
    site.host.start_ready()
    wait_until(lambda: site.query(STATES) == [("completed",)], 60, "the operation completes")
    wait_until(lambda: site.count(STORED) == RETRIED + ARRIVING, 60, "all are stored")
    sent = Counter(each.properties.message_id for each in site.shop.take(site.shop.orders, RETRIED))
    assert (len(sent), set(sent.values())) == (RETRIED, {1})
    attempts = "SELECT count(*) FROM failed_messages WHERE attempts > 1"
    assert site.count(attempts) == 0
