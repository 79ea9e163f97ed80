"""The broker's node is killed in the middle of the work: a quorum queue may lose its leader."""

import pytest

from tests.faults.conftest import Begin
from tests.faults.work import check
from tests.journeys.conftest import Site
from tests.support.private_servers import PrivateRabbitMQ

pytestmark = [
    pytest.mark.faults,
    pytest.mark.rabbitmq,
    pytest.mark.postgres,
]

on_each_kind = pytest.mark.parametrize("kind", ["quorum", "classic"])


@on_each_kind
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
