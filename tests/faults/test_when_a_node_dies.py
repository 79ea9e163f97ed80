"""The nodes of a cluster of three are killed one after the other, while there is work both ways."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.conftest import Roads, open_site
from tests.faults.flow import ROOM, Flow
from tests.faults.work import WINDOW, Figures
from tests.support.private_cluster import PrivateCluster, private_cluster
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.faults,
    pytest.mark.rabbitmq,
    pytest.mark.postgres,
]

FIRST, EACH = 100, 2450
PREFETCH = 50


@pytest.fixture
def nodes() -> Iterator[PrivateCluster]:
    """Give a cluster of three nodes that a test may do anything to."""
    with private_cluster() as nodes:
        yield nodes


@pytest.fixture
def flow(nodes: PrivateCluster, database_url: str, tmp_path: Path) -> Iterator[Flow]:
    """Give a service that knows all three nodes and has something to do."""
    roads = Roads(nodes.urls[0], database_url, service_broker=nodes.urls)
    with open_site(roads, tmp_path) as site:
        site.host.configure("ingestion", prefetch=PREFETCH)
        service = site.host.start()
        wait_until(lambda: service.find("service.started"), ROOM, "the service is up")
        flow = Flow(site, nodes, service)
        with flow.failing(FIRST):
            flow.must_retry(FIRST)
        yield flow


def test_work_goes_on_without_the_node_we_are_connected_to_and_without_the_leader(
    flow: Flow, nodes: PrivateCluster, figures: Figures
) -> None:
    # When the node dies to which the publisher is connected
    ours = nodes.find_connected(": publisher")
    with flow.failing(EACH):
        without_ours = flow.must_go_on_without(ours)

    # And, once it is back, the node that leads the staging queue
    ours.start()
    nodes.wait_for_all()
    leader = nodes.find_leader(flow.site.staging_queue)
    with flow.failing(EACH):
        without_leader = flow.must_go_on_without(leader)

    # Then all is done while that node is dead; nothing is lost, and no more twice than in doubt
    flow.must_finish()
    sent = flow.sent()
    figures.stage = "both ways"
    figures.recovery = max(without_ours, without_leader)
    figures.doubled = sum(sent.values()) - len(sent)
    assert flow.attempts() == dict.fromkeys(flow.failed, 1)
    assert set(sent) == flow.failed
    assert figures.doubled <= 2 * WINDOW
