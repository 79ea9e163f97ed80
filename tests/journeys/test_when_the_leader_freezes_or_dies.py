"""Leaders that are killed or frozen on another host: another takes over, the old one does nothing."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic

import pytest

from retrier.domain import headers
from tests.journeys.conftest import Site
from tests.support.hostnames import on_host
from tests.support.service import Service
from tests.support.shop import Sent
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.journey, pytest.mark.rabbitmq, pytest.mark.postgres]

LEASE = 8
"""Seconds. Much shorter, and a leader that the machine lets wait would lose it before it freezes."""
WINDOW = 50
COUNT = 150
LOOKS = 3
"""Seconds until a standby has looked whether the lease is free, on a busy machine."""
TAKEN_OVER = 40
COMPLETED = "SELECT count(*) FROM retry_operations WHERE state = 'completed'"
COUNTS = "SELECT forwarded, skipped, failed FROM retry_operations"
DOUBT = """
SELECT CAST(retry_id AS text) FROM failed_message_retries
WHERE sending_since IS NOT NULL AND forwarded_at IS NULL
"""
WRITTEN = """
SELECT retry_id, batch_id, sending_since, forwarded_at FROM failed_message_retries ORDER BY retry_id
"""

POINTS = [
    pytest.param("forwarding.stamped:2", marks=pytest.mark.kills),
    "forwarding.published:2",
    pytest.param("staging.sent:2", marks=pytest.mark.kills),
    pytest.param("forwarding.acked:1", marks=pytest.mark.kills),
]


@pytest.fixture
def kind() -> str:
    """One type of queue is enough here."""
    return "quorum"


@pytest.fixture
def site(site: Site) -> Site:
    """Give a site with a short lease, and small windows."""
    site.host.configure("processor", lease=f"{LEASE}s")
    site.host.configure("retries", forwarding_window=WINDOW)
    return site


@dataclass(frozen=True, slots=True)
class Pair:
    """A leader, and who stands by on another host."""

    leader: Service
    standby: Service


def start_pair(site: Site, freeze_at: str | None = None) -> Pair:
    """Start a leader that freezes itself in its work, and a standby."""
    leader = site.host.start_ready(within=on_host("first"), freeze_at=freeze_at)
    wait_until(lambda: "processor.lease_acquired" in leader.names(), 30)
    standby = site.host.start_ready(within=on_host("second"))
    wait_until(lambda: "processor.waiting_for_lease" in standby.names(), 30)
    return Pair(leader, standby)


def retry_all(site: Site, service: Service, count: int = COUNT) -> None:
    """Let messages fail, and ask for a retry of all of them."""
    stored = "SELECT count(*) FROM failed_messages"
    before = site.count(stored)
    site.shop.fail(count)
    wait_until(lambda: site.count(stored) == before + count, 30, "all are stored")
    with service.http as http:
        http.post("/api/errors/retry/all").raise_for_status()


def doubled(sent: Sequence[Sent]) -> list[str]:
    """Return the retry id of each copy beyond the first."""
    times = Counter(str(each.headers[headers.RETRY_ID]) for each in sent)
    return [retry_id for retry_id, number in times.items() for _ in range(number - 1)]


@pytest.mark.parametrize("point", POINTS)
def test_a_frozen_leader_is_replaced_and_does_nothing_when_it_wakes(site: Site, point: str) -> None:
    # Given a leader that freezes at this point of its work
    pair = start_pair(site, freeze_at=point)
    retry_all(site, pair.standby)
    wait_until(pair.leader.is_frozen, 30, "it freezes")
    in_doubt = {row[0] for row in site.query(DOUBT)}
    assert len(in_doubt) <= WINDOW

    # Then the other one takes over and completes the work
    wait_until(lambda: site.count(COMPLETED) == 1, TAKEN_OVER, "the other one completes it")

    # When the frozen one wakes
    written = site.query(WRITTEN)
    pair.leader.wake()
    wait_until(lambda: "processor.lease_lost" in pair.leader.names(), 30, "it notices")
    wait_until(lambda: "processor.waiting_for_lease" in pair.leader.names(), 30, "it stands by")

    # Then it has written nothing, and sent nothing but what was in doubt
    assert site.query(WRITTEN) == written
    assert site.query(COUNTS) == [(COUNT, 0, 0)]
    sent = site.shop.take(site.shop.orders, COUNT)
    assert len({each.properties.message_id for each in sent}) == COUNT
    assert set(doubled(sent)) <= in_doubt
    assert len(doubled(sent)) <= WINDOW


@pytest.mark.kills
def test_a_leader_that_was_frozen_takes_over_again(site: Site) -> None:
    pair = start_pair(site, freeze_at="forwarding.published:2")
    retry_all(site, pair.standby)
    wait_until(pair.leader.is_frozen, 30, "it freezes")
    wait_until(lambda: site.count(COMPLETED) == 1, TAKEN_OVER, "the other one completes it")
    pair.leader.wake()
    wait_until(lambda: "processor.lease_lost" in pair.leader.names(), 30, "it notices")

    pair.standby.kill()

    retry_all(site, pair.leader, 1)
    wait_until(lambda: site.count(COMPLETED) == 2, TAKEN_OVER, "the first one leads again")


def test_work_that_comes_after_the_takeover_is_not_held_up_by_the_frozen_one(site: Site) -> None:
    # Given a leader that freezes when its work is done, with the staging queue in its hands
    pair = start_pair(site, freeze_at="forwarding.completed")
    retry_all(site, pair.standby, 1)
    wait_until(pair.leader.is_frozen, 30, "it freezes")

    # When there is more to do, then the other one does it before the broker gives the first up
    retry_all(site, pair.standby, 1)
    wait_until(lambda: site.count(COMPLETED) == 2, TAKEN_OVER, "the other one goes on")


@pytest.mark.waits
def test_a_leader_killed_on_another_host_is_replaced_within_the_lease(site: Site) -> None:
    pair = start_pair(site, freeze_at="forwarding.published:2")
    retry_all(site, pair.standby)
    wait_until(pair.leader.is_frozen, 30, "it is in the middle of its work")

    pair.leader.kill()

    began = monotonic()
    wait_until(lambda: "processor.lease_acquired" in pair.standby.names(), LEASE + LOOKS)
    assert monotonic() - began > LEASE / 3
    wait_until(lambda: site.count(COMPLETED) == 1, TAKEN_OVER, "the other one completes it")
    assert len(doubled(site.shop.take(site.shop.orders, COUNT))) <= WINDOW
