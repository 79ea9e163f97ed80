"""Somebody else has a hand in the staging queue: takes its copies, drops them, or holds it."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.faults.conftest import Begin
from tests.faults.readiness import NEXT_TRY, must_say, must_tell
from tests.faults.work import RECOVERY, RETRIED, Work, check
from tests.journeys.conftest import Site
from tests.support.private_servers import PrivateRabbitMQ
from tests.support.servers import pika_connection
from tests.support.tcp_proxy import TcpProxy
from tests.support.thief import robbed

pytestmark = [
    pytest.mark.faults,
    pytest.mark.rabbitmq,
    pytest.mark.postgres,
]

on_each_kind = pytest.mark.parametrize("kind", ["quorum", "classic"])
in_staging = pytest.mark.parametrize("stage", ["staging"])

VANISH = "copies vanish from the staging queue"
MOST = 100


@contextmanager
def limited(broker: PrivateRabbitMQ, queue: str, most: int) -> Iterator[None]:
    """Let a queue drop its oldest messages beyond so many."""
    broker.limit(queue, max_length=most)
    try:
        yield
    finally:
        broker.lift_limit()


@contextmanager
def held(broker: PrivateRabbitMQ, queue: str, kind: str) -> Iterator[None]:
    """Let somebody declare a queue first, and be its only consumer."""
    connection = pika_connection(broker.url)
    channel = connection.channel()
    channel.queue_declare(queue, durable=True, arguments={"x-queue-type": kind})
    channel.basic_consume(queue, lambda *_: None, exclusive=True)
    try:
        yield
    finally:
        connection.close()


@contextmanager
def queued_up(broker: PrivateRabbitMQ, queue: str, kind: str) -> Iterator[None]:
    """Let somebody wait to be the active consumer of our own queue, and settle nothing then.

    A classic queue with a single active consumer takes no exclusive one, a quorum queue does.
    """
    connection = pika_connection(broker.url)
    connection.channel().basic_consume(queue, lambda *_: None, exclusive=kind == "quorum")
    try:
        yield
    finally:
        connection.close()


@on_each_kind
@in_staging
def test_copies_that_somebody_takes_are_named_and_staged_again(
    work: Work, broker: PrivateRabbitMQ, line: TcpProxy
) -> None:
    with work.fault(), robbed(broker.url, work.site.staging_queue):
        line.throttle(None)
        must_tell(work, VANISH)

    work.must_finish(within=NEXT_TRY + RECOVERY)
    check(work, in_doubt=0)


@on_each_kind
@in_staging
def test_a_length_limit_that_drops_all_copies_is_named(
    work: Work, broker: PrivateRabbitMQ, line: TcpProxy
) -> None:
    with work.fault(), limited(broker, work.site.staging_queue, 0):
        line.throttle(None)
        must_tell(work, VANISH)

    work.must_finish(within=NEXT_TRY + RECOVERY)
    check(work, in_doubt=0)


@on_each_kind
def test_a_length_limit_that_drops_most_copies_only_takes_its_time(
    site: Site, begin: Begin, broker: PrivateRabbitMQ
) -> None:
    with limited(broker, site.staging_queue, MOST):
        work = begin(site)
        work.begin_now()
        work.must_finish()

        check(work, in_doubt=0)
        left = [line["size"] for line in work.service.find("batch.moved")]
        assert left == sorted(set(left), reverse=True)
        assert left[-1] <= RETRIED // 2


@on_each_kind
def test_a_staging_queue_that_somebody_else_holds_is_named_and_declared_anew(
    site: Site, begin: Begin, broker: PrivateRabbitMQ, kind: str
) -> None:
    with held(broker, site.staging_queue, kind):
        work = begin(site)
        in_use = "is not ours and in use: 0 messages ready, 1 consumer"
        must_say(work, f".*{re.escape(in_use)}.*")

    work.begin_now()
    work.must_finish(within=NEXT_TRY + RECOVERY)
    check(work, in_doubt=0)


@on_each_kind
@pytest.mark.parametrize("stage", ["forwarding"])
def test_a_consumer_that_has_our_copies_after_a_cut_is_ended_when_the_marker_is_missed(
    work: Work, broker: PrivateRabbitMQ, line: TcpProxy, kind: str
) -> None:
    with queued_up(broker, work.site.staging_queue, kind):
        with work.fault():
            line.cut()

        work.must_finish()
        check(work)
        assert len(work.service.find("batch.moved")) == 1
