"""A policy lets a queue refuse messages for a while; when it is over, retries go on by themselves.

A quorum queue tells a channel that it is full, and not always that it has room again. RabbitMQ
3.10 forgets it when the policy is cleared, 4.0 when the policy says something else.
"""

import signal
from collections import Counter
from collections.abc import Callable

import pytest

from retrier.events.processor import CopySentAlone
from retrier.store.engine.database import Database, DatabaseOptions
from retrier.store.recording import record_received
from tests.faults.work import STORED
from tests.journeys.conftest import Site
from tests.support.factories import failure, unique_id
from tests.support.private_servers import PrivateRabbitMQ
from tests.support.service import Service
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.faults,
    pytest.mark.rabbitmq,
    pytest.mark.postgres,
]

RETRIED = 100
MOST = 10
DEADLINE = 60
KILLED_AT = CopySentAlone.name
"""A copy carries nothing of its message that a broker could refuse: only a full queue refuses."""
TOO_LARGE = 20_000_000
"""Bytes: more than RabbitMQ 4 takes of one message."""
OPERATIONS = "SELECT state FROM retry_operations"
UNRESOLVED = "SELECT count(*) FROM failed_messages WHERE status = 'unresolved'"
REASONS = "SELECT reason FROM retry_batches"

Change = Callable[[PrivateRabbitMQ, str], None]


def clear(broker: PrivateRabbitMQ, _queue: str) -> None:
    broker.lift_limit()


def limit_otherwise(broker: PrivateRabbitMQ, queue: str) -> None:
    broker.limit(queue, max_length=1_000_000)


on_each_kind = pytest.mark.parametrize("kind", ["quorum", "classic"])
after_each_change = pytest.mark.parametrize("change", [clear, limit_otherwise])


@pytest.fixture
def service(site: Site) -> Service:
    """Give a service that has stored all failures."""
    site.host.configure("ingestion", prefetch=RETRIED)
    site.shop.fail(RETRIED)
    service: Service = site.host.start_ready()
    wait_until(lambda: site.count(STORED) == RETRIED, DEADLINE, "all is stored")
    return service


def ask(service: Service) -> None:
    """Ask for a retry of everything that is unresolved."""
    with service.http as http:
        http.post("/api/errors/retry/all").raise_for_status()


def wait_until_complete(site: Site) -> None:
    wait_until(
        lambda: {row[0] for row in site.query(OPERATIONS)} == {"completed"}, DEADLINE, "all is done"
    )


def take(site: Site) -> Counter[str]:
    """Take everything off the destination; return how often each message came."""
    return Counter(each.properties.message_id for each in site.shop.take(site.shop.orders, 0))


@on_each_kind
@after_each_change
def test_what_a_destination_refused_arrives_once_when_it_has_room_again(
    site: Site, broker: PrivateRabbitMQ, service: Service, change: Change
) -> None:
    # Given a destination that took some and refused the others, among them a whole last window
    broker.limit(site.shop.orders, max_length=MOST, overflow="reject-publish")
    ask(service)
    wait_until_complete(site)
    refused = site.count(UNRESOLVED)
    assert 0 < refused < RETRIED

    # When it has room again, and they are asked for again
    change(broker, site.shop.orders)
    sent = take(site)
    ask(service)
    wait_until_complete(site)

    # Then all have arrived, each once, and the log has told of them in a line or two
    sent += take(site)
    assert site.count(UNRESOLVED) == 0
    assert (len(sent), set(sent.values())) == (RETRIED, {1})
    service.stop()
    told = service.find("message.reverted")
    assert [line["destination"] for line in told] in ([site.shop.orders], [site.shop.orders] * 2)
    assert sum(line["count"] for line in told) == refused


@on_each_kind
@after_each_change
def test_a_staging_queue_that_refused_is_filled_when_it_has_room_again(
    site: Site, broker: PrivateRabbitMQ, service: Service, change: Change
) -> None:
    # Given a staging queue that takes no batch
    broker.limit(site.staging_queue, max_length=0, overflow="reject-publish")
    ask(service)
    wait_until(lambda: "takes no copies" in str(site.query(REASONS)), DEADLINE, "it is refused")

    # When it has room
    change(broker, site.staging_queue)

    # Then all arrive, each once, and none was ejected
    wait_until_complete(site)
    sent = take(site)
    assert (len(sent), set(sent.values())) == (RETRIED, {1})
    assert service.find("message.ejected") == []
    service.wait_ready()


@on_each_kind
def test_a_process_killed_when_one_refused_copy_was_sent_alone_doubles_and_ejects_nothing(
    site: Site, broker: PrivateRabbitMQ, service: Service
) -> None:
    # Given a process that dies in the middle of a staging queue's refusals
    service.stop()
    doomed = site.host.start(crash_at=KILLED_AT)
    doomed.wait_ready()
    broker.limit(site.staging_queue, max_length=0, overflow="reject-publish")
    ask(doomed)
    assert doomed.wait_dead(DEADLINE) == -signal.SIGKILL

    # When the queue has room, and another process is started
    clear(broker, site.staging_queue)
    site.host.start_ready()
    wait_until_complete(site)

    # Then all arrive, each once
    sent = take(site)
    assert (len(sent), set(sent.values())) == (RETRIED, {1})
    assert site.count(UNRESOLVED) == 0


@on_each_kind
def test_a_body_larger_than_the_broker_takes_comes_back_and_doubles_no_other(
    site: Site, service: Service
) -> None:
    # Given a message that the broker would not take any more, among others
    large = failure(body=bytes(TOO_LARGE), queue=site.shop.orders, error_queue=site.shop.error)
    db = Database(DatabaseOptions(url=site.database_url))
    record_received(db, [large], instance="test")
    db.dispose()

    ask(service)
    wait_until_complete(site)

    sent = take(site)
    assert (len(sent), set(sent.values())) == (RETRIED, {1})
    with service.http as http:
        row = http.get(f"/api/errors/{unique_id(large)}").json()
    assert row["status"] == "unresolved"
    assert "406 PRECONDITION_FAILED" in row["disposition_reason"]
    assert "message size 20000000" in row["disposition_reason"]
