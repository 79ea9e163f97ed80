"""The database restarts or freezes while there is work."""

import pytest

from tests.faults.work import Work, check
from tests.support.private_servers import PrivatePostgres
from tests.support.tcp_proxy import TcpProxy
from tests.support.waiting import let_pass

pytestmark = [
    pytest.mark.faults,
    pytest.mark.rabbitmq,
    pytest.mark.postgres,
]

FROZEN = 12


@pytest.mark.parametrize(
    ("mode", "stage"),
    [("fast", "forwarding"), ("immediate", "staging"), ("immediate", "forwarding")],
)
def test_a_database_that_is_restarted_is_waited_for(
    work: Work, cluster: PrivatePostgres, line: TcpProxy, mode: str
) -> None:
    with work.fault():
        cluster.restart(mode)
        line.throttle(None)

    work.must_finish()
    check(work, in_doubt=0)


@pytest.mark.parametrize("stage", ["staging", "forwarding"])
def test_a_database_that_freezes_is_waited_for(
    work: Work, cluster: PrivatePostgres, line: TcpProxy
) -> None:
    with work.fault(), cluster.frozen():
        line.throttle(None)
        let_pass(FROZEN)

    work.must_finish()
    check(work, in_doubt=0)
