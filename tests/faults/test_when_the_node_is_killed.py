"""The broker's node is killed while a batch is forwarded, and a quorum queue loses its leader."""

import pytest

from tests.faults.conftest import Begin
from tests.faults.work import check
from tests.journeys.conftest import Site
from tests.support.private_servers import PrivateRabbitMQ
from tests.support.tcp_proxy import TcpProxy

pytestmark = [
    pytest.mark.faults,
    pytest.mark.rabbitmq,
    pytest.mark.postgres,
]

SLOW = 30_000
"""Bytes a second: forwarding lasts long enough for the fault to fall into it."""


@pytest.mark.parametrize("kind", ["quorum", "classic"])
def test_a_node_that_is_killed_and_started_again_costs_a_window_at_most(
    site: Site, begin: Begin, broker: PrivateRabbitMQ
) -> None:
    work = begin(site)
    work.wait_for("forwarding")

    with work.fault():
        broker.kill()
        broker.start()

    work.must_finish()
    check(work)


def test_a_staging_queue_that_lost_its_leader_is_deleted_and_filled_again(
    site_by_line: Site, begin: Begin, broker: PrivateRabbitMQ, line: TcpProxy
) -> None:
    # Given a staging queue of which a crash leaves nothing but its name
    work = begin(site_by_line)
    work.wait_for("forwarding")
    line.throttle(SLOW)

    with work.fault():
        broker.forget(site_by_line.staging_queue)
        broker.kill()
        line.throttle(None)
        broker.start()

    work.must_finish()
    check(work)
    assert len(work.service.find("staging.renewed")) == 1
