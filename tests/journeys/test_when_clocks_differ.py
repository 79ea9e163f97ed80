"""Hosts whose clocks differ by minutes: the database's clock decides, and nothing changes."""

from datetime import timedelta

import pytest

from tests.journeys.conftest import Site
from tests.support.hostnames import on_host
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.journey, pytest.mark.rabbitmq, pytest.mark.postgres]

MINUTES = 300
LEASE = 3
COMPLETED = "SELECT count(*) FROM retry_operations WHERE state = 'completed'"
STORED = "SELECT count(*) FROM failed_messages"
TIMES = """
SELECT 'lease', expires_at FROM processor_lease
UNION ALL SELECT 'asked', created_at FROM retry_operations
UNION ALL SELECT 'done', completed_at FROM retry_operations
UNION ALL SELECT 'sent', sending_since FROM failed_message_retries
UNION ALL SELECT 'recorded', forwarded_at FROM failed_message_retries
UNION ALL SELECT 'modified', last_modified FROM failed_messages
UNION ALL SELECT 'received', received_at FROM processing_attempts
UNION ALL SELECT 'event', at FROM event_log
"""


@pytest.fixture
def kind() -> str:
    """One type of queue is enough here."""
    return "quorum"


@pytest.fixture(params=[MINUTES, -MINUTES], ids=["the leader is ahead", "the leader is behind"])
def offset(request: pytest.FixtureRequest) -> int:
    """By how many seconds the leader's clock is ahead; the other one's is as far behind."""
    return int(request.param)


@pytest.mark.waits
def test_retries_and_takeover_are_as_ever(site: Site, offset: int) -> None:
    # Given a leader and a standby whose clocks are ten minutes apart
    site.host.configure("processor", lease=f"{LEASE}s")
    leader = site.host.start_ready(within=on_host("first"), clock_offset=offset)
    wait_until(lambda: "processor.lease_acquired" in leader.names(), 30)
    standby = site.host.start_ready(within=on_host("second"), clock_offset=-offset)
    wait_until(lambda: "processor.waiting_for_lease" in standby.names(), 30)
    site.shop.fail(10)
    wait_until(lambda: site.count(STORED) == 10, 30, "all are stored")

    # When one is asked and the other one leads
    with standby.http as http:
        http.post("/api/errors/retry/all").raise_for_status()
    wait_until(lambda: site.count(COMPLETED) == 1, 30, "the retry is complete")

    # Then nobody takes the lease from a leader that lives
    assert "processor.lease_lost" not in leader.names()
    assert "processor.lease_acquired" not in standby.names()
    # and it is taken when its time is over, neither sooner nor later
    leader.kill()
    left = site.query("SELECT expires_at - clock_timestamp() FROM processor_lease")[0][0]
    assert timedelta(0) < left <= timedelta(seconds=LEASE)
    wait_until(lambda: "processor.lease_acquired" in standby.names(), LEASE + 3)
    site.shop.fail(10)
    wait_until(lambda: site.count(STORED) == 20, 30, "all are stored")
    with standby.http as http:
        http.post("/api/errors/retry/all").raise_for_status()
    wait_until(lambda: site.count(COMPLETED) == 2, 30, "the other one retries")
    # and every time that was written is the database's
    (now,) = site.query("SELECT clock_timestamp()")[0]
    wrong = {what for what, at in site.query(TIMES) if abs(at - now) > timedelta(seconds=120)}
    assert wrong == set()
