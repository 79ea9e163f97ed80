"""SIGTERM while a server is frozen: the process ends all the same, and another one goes on."""

import pytest

from tests.faults.conftest import Begin
from tests.faults.work import check
from tests.journeys.conftest import Site
from tests.support.private_servers import PrivatePostgres, PrivateRabbitMQ
from tests.support.waiting import let_pass

pytestmark = [pytest.mark.faults, pytest.mark.rabbitmq, pytest.mark.postgres]

SOON = 10
"""Seconds in which a service told to stop has stopped."""
FROZEN_BEFORE = 3


@pytest.mark.parametrize("server", ["broker", "cluster"])
def test_a_service_told_to_stop_does_not_wait_for_a_frozen_server(
    site: Site, begin: Begin, server: str, request: pytest.FixtureRequest
) -> None:
    work = begin(site)
    work.wait_for("forwarding")
    frozen: PrivateRabbitMQ | PrivatePostgres = request.getfixturevalue(server)

    with work.fault(), frozen.frozen():
        let_pass(FROZEN_BEFORE)
        work.service.terminate()
        assert work.service.wait_dead(SOON) == 0

    work.go_on_with(site.host.start())
    work.must_finish()
    check(work)
