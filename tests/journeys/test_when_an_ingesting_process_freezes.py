"""A process is frozen with failures in hand; another one gets them, and they are retried meanwhile."""

import pytest

from tests.journeys.conftest import Site
from tests.support.raw_messages import retrier_headers
from tests.support.service import Service
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.journey, pytest.mark.rabbitmq, pytest.mark.postgres, pytest.mark.kills]
"""Not in the plain run: the broker gives a frozen service up after 10 to 15 s."""

NSB_ID = "NServiceBus.MessageId"
STORED = "SELECT count(*) FROM processing_attempts"
IMPORTS = "SELECT count(*) FROM failed_imports"
RETRIED = "SELECT count(*) FROM retry_operations WHERE state = 'completed'"
RESOLVED = "SELECT count(*) FROM failed_messages WHERE status = 'resolved'"
MESSAGES = "SELECT unique_message_id, status, attempts, number FROM failed_messages ORDER BY number"


@pytest.fixture
def kind() -> str:
    """One type of queue is enough here.

    Not the embedded default: a process of many threads may be frozen in the middle of a
    transaction, and on SQLite all others then wait until it wakes.
    """
    return "quorum"


def fail_in_every_way(site: Site) -> None:
    """Fill four batches, of 1, 2, 4 and 8; the last one has of every kind."""
    site.shop.fail(11)
    for number in range(2):
        headers = retrier_headers(**{"Retrier.FailedQueue": site.shop.orders})
        site.shop.put(headers, b"without an id %d" % number)
        site.shop.put({}, b"nonsense %d" % number)


def retry_all_and_confirm_one(site: Site, service: Service) -> None:
    """Have all retried; one of them, which the frozen process has in hand, succeeds."""
    with service.http as http:
        http.post("/api/errors/retry/all").raise_for_status()
    wait_until(lambda: site.count(RETRIED) == 1, 60, "all are retried")
    sent = site.shop.take(site.shop.orders, 13)
    site.shop.confirm(next(each for each in reversed(sent) if NSB_ID in each.headers))
    wait_until(lambda: site.count(RESOLVED) == 1, 60, "it is resolved")


def test_it_stores_nothing_again_and_nothing_becomes_unresolved(site: Site) -> None:
    # Given a process that is frozen with failures in hand, which another one gets and stores
    fail_in_every_way(site)
    frozen = site.host.start("ingestion", freeze_at="ingestion.before_record:4")
    wait_until(frozen.is_frozen, 60, "it is frozen")
    other = site.host.start("ingestion", "processor", "api")
    wait_until(lambda: (site.count(STORED), site.count(IMPORTS)) == (13, 2), 60, "all are stored")
    retry_all_and_confirm_one(site, other)
    other.stop()
    messages = site.query(MESSAGES)

    # When it wakes, and has stored what fails after that
    frozen.wake()
    site.shop.put_nonsense()
    wait_until(lambda: site.count(IMPORTS) > 2, 60, "it goes on")

    # Then nothing of what it had in hand is there twice, and nothing is to be retried again
    assert site.query(MESSAGES) == messages
    assert (site.count(STORED), site.count(IMPORTS)) == (13, 3)
