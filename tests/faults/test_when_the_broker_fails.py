"""The broker restarts, stays away, freezes or runs short of memory while there is work."""

import pytest

from tests.faults.work import begin_work, check
from tests.journeys.conftest import Site
from tests.support.private_servers import PrivateRabbitMQ
from tests.support.waiting import let_pass

pytestmark = [pytest.mark.faults, pytest.mark.rabbitmq, pytest.mark.postgres]

AWAY = 5
FROZEN = 12
SHORT_OF_MEMORY = 10


@pytest.mark.parametrize("stage", ["staging", "forwarding"])
def test_a_broker_that_is_restarted_costs_a_window_at_most(
    site: Site, broker: PrivateRabbitMQ, stage: str
) -> None:
    work = begin_work(site, broker.url)
    if stage == "staging":
        work.wait_for("batch.marked")
    else:
        work.wait_for_the_middle()

    with work.fault():
        broker.stop()
        broker.start()

    work.must_finish()
    check(work)


def test_a_broker_that_stays_away_is_waited_for(site: Site, broker: PrivateRabbitMQ) -> None:
    work = begin_work(site, broker.url)
    work.wait_for_the_middle()

    with work.fault():
        broker.stop()
        let_pass(AWAY)
        broker.start()

    work.must_finish()
    check(work)


def test_a_broker_that_freezes_is_waited_for(site: Site, broker: PrivateRabbitMQ) -> None:
    work = begin_work(site, broker.url)
    work.wait_for_the_middle()

    with work.fault(), broker.frozen():
        let_pass(FROZEN)

    work.must_finish()
    check(work)


def test_a_broker_short_of_memory_is_sent_nothing_twice(
    site: Site, broker: PrivateRabbitMQ
) -> None:
    work = begin_work(site, broker.url)
    work.wait_for("batch.marked")

    with broker.short_of_memory(), work.fault():
        let_pass(SHORT_OF_MEMORY)

    work.must_finish()
    check(work, faults=0)
