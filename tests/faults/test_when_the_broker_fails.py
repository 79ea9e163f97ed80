"""The broker restarts, stays away, freezes or runs short of memory while there is work."""

import pytest

from tests.faults.work import Work, check
from tests.support.private_servers import PrivateRabbitMQ
from tests.support.tcp_proxy import TcpProxy
from tests.support.waiting import let_pass

pytestmark = [
    pytest.mark.faults,
    pytest.mark.rabbitmq,
    pytest.mark.postgres,
]

in_each_stage = pytest.mark.parametrize("stage", ["staging", "forwarding"])
on_each_kind = pytest.mark.parametrize("kind", ["quorum", "classic"])

AWAY = 5
FROZEN = 12
SHORT_OF_MEMORY = 10


@in_each_stage
@on_each_kind
def test_a_broker_that_is_restarted_costs_a_window_at_most(
    work: Work, broker: PrivateRabbitMQ, line: TcpProxy
) -> None:
    with work.fault():
        broker.stop()
        line.throttle(None)
        broker.start()

    work.must_finish()
    check(work)


@in_each_stage
def test_a_broker_that_stays_away_is_waited_for(
    work: Work, broker: PrivateRabbitMQ, line: TcpProxy
) -> None:
    with work.fault():
        broker.stop()
        line.throttle(None)
        let_pass(AWAY)
        broker.start()

    work.must_finish()
    check(work)


@in_each_stage
@on_each_kind
def test_a_broker_that_freezes_is_waited_for(
    work: Work, broker: PrivateRabbitMQ, line: TcpProxy
) -> None:
    with work.fault(), broker.frozen():
        line.throttle(None)
        let_pass(FROZEN)

    work.must_finish()
    check(work)


@in_each_stage
def test_a_broker_short_of_memory_is_sent_nothing_twice(
    work: Work, broker: PrivateRabbitMQ, line: TcpProxy
) -> None:
    with work.fault(), broker.short_of_memory():
        line.throttle(None)
        let_pass(SHORT_OF_MEMORY)

    work.must_finish()
    check(work, in_doubt=0)
