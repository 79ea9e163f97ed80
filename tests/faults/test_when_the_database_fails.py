"""The database breaks off or freezes while there is work."""

import pytest

from tests.faults.work import begin_work, check
from tests.journeys.conftest import Site
from tests.support.private_servers import PrivatePostgres, PrivateRabbitMQ
from tests.support.waiting import let_pass

pytestmark = [pytest.mark.faults, pytest.mark.rabbitmq, pytest.mark.postgres]

FROZEN = 12


def test_a_database_that_is_broken_off_is_waited_for(
    site: Site, broker: PrivateRabbitMQ, cluster: PrivatePostgres
) -> None:
    work = begin_work(site, broker.url)
    work.wait_for_the_middle()

    with work.fault():
        cluster.restart()

    work.must_finish()
    check(work)


def test_a_database_that_freezes_is_waited_for(
    site: Site, broker: PrivateRabbitMQ, cluster: PrivatePostgres
) -> None:
    work = begin_work(site, broker.url)
    work.wait_for_the_middle()

    with work.fault(), cluster.frozen():
        let_pass(FROZEN)

    work.must_finish()
    check(work)
