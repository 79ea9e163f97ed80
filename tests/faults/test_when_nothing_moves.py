"""Nothing moves though every server answers: ready says so, and what the processor waits for."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from tests.faults.readiness import NEXT_TRY, must_tell
from tests.faults.work import RECOVERY, Work, check
from tests.support.private_servers import PrivateRabbitMQ
from tests.support.servers import psycopg_url
from tests.support.tcp_proxy import TcpProxy

pytestmark = [
    pytest.mark.faults,
    pytest.mark.rabbitmq,
    pytest.mark.postgres,
]

in_staging = pytest.mark.parametrize("stage", ["staging"])
"""What takes seconds to be told to the broker must fall into something slow."""

CLAIMS = "SELECT 1 FROM failed_message_retries FOR UPDATE"
TABLE = "LOCK TABLE failed_messages IN ACCESS EXCLUSIVE MODE"


@contextmanager
def locked(work: Work, statement: str) -> Iterator[None]:
    """Hold a lock in the database, as somebody does who forgets to end a transaction."""
    with psycopg.connect(psycopg_url(work.site.database_url)) as conn:
        conn.execute(statement)
        yield
        conn.rollback()


@contextmanager
def short_lived(broker: PrivateRabbitMQ, queue: str) -> Iterator[None]:
    """Let every message in a queue expire at once."""
    policy = ("short-lived", f"^{queue}$", '{"message-ttl": 1}')
    broker.control("set_policy", *policy, "--apply-to", "queues")
    try:
        yield
    finally:
        broker.control("clear_policy", "short-lived")


@pytest.mark.parametrize("stage", ["forwarding"])
@pytest.mark.parametrize("statement", [CLAIMS, TABLE], ids=["rows", "table"])
def test_a_lock_in_the_database_is_named(work: Work, line: TcpProxy, statement: str) -> None:
    with work.fault(), locked(work, statement):
        line.throttle(None)
        must_tell(work, "waits for the database")

    work.must_finish()
    check(work, in_doubt=0)


@in_staging
def test_a_policy_that_lets_copies_vanish_is_named(
    work: Work, broker: PrivateRabbitMQ, line: TcpProxy
) -> None:
    with work.fault(), short_lived(broker, work.site.staging_queue):
        line.throttle(None)
        must_tell(work, "copies vanish from the staging queue")

    work.must_finish(within=NEXT_TRY + RECOVERY)
    check(work, in_doubt=0)


@in_staging
def test_an_alarm_of_the_broker_is_named(
    work: Work, broker: PrivateRabbitMQ, line: TcpProxy
) -> None:
    with work.fault(), broker.short_of_memory():
        line.throttle(None)
        must_tell(work, "the broker blocks publishers (alarm)")

    work.must_finish()
    check(work, in_doubt=0)
