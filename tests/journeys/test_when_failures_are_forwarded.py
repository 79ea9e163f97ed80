"""With a log queue: each failure goes there as it came, at least once, and holds nothing up."""

import signal
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from time import monotonic

import pytest

from retrier.app.parts import make_transport
from retrier.domain.headers import LOGGED_ID
from retrier.domain.wire import Delivery, Edit, PropertyCodec
from retrier.settings import load_settings
from tests.journeys.conftest import RABBITMQ_AND_POSTGRES, Site
from tests.support.tcp_proxy import TcpProxy
from tests.support.waiting import wait_until

pytestmark = pytest.mark.journey

ONE_IS_ENOUGH = pytest.mark.parametrize(
    "kind", [pytest.param("quorum", marks=RABBITMQ_AND_POSTGRES)], indirect=True
)
COUNT = 20
WAITING = "SELECT count(*) FROM outgoing"
STORED = "SELECT count(*) FROM processing_attempts"
ORIGINALS = (
    "SELECT m.unique_message_id, a.raw_properties, a.body FROM failed_messages m "
    "JOIN processing_attempts a ON a.attempt_id = m.attempt_id"
)
SOON = 10


@dataclass(frozen=True, slots=True)
class Log:
    """The log queue of a site."""

    site: Site
    queue: str

    def wait_sent(self, stored: int) -> None:
        """Wait until so many failures are stored and no copy waits."""
        wait_until(lambda: self.site.count(STORED) == stored, 60, "all are stored")
        wait_until(lambda: self.site.count(WAITING) == 0, 60, "all are sent")

    def ids(self, count: int) -> Counter[str]:
        """Take everything; return how often each message is there."""
        return Counter(each.headers[LOGGED_ID] for each in self.site.shop.take(self.queue, count))

    def receive(self, count: int) -> tuple[PropertyCodec, list[Delivery]]:
        """Take so many messages, byte for byte."""
        transport = make_transport(load_settings(self.site.host.config, {}))
        consumer = transport.consumer(self.queue, count)
        got: list[Delivery] = []

        def has_all() -> bool:
            got.extend(consumer.receive(count, 1))
            return len(got) >= count

        wait_until(has_all, 30)
        consumer.ack(got)
        consumer.close()
        return transport.codec, got


@pytest.fixture
def log(site: Site) -> Iterator[Log]:
    """Give the log queue; it exists, and what is started from now on knows it."""
    queue = f"{site.shop.error}.log"
    site.shop.declare(queue)
    site.host.configure("ingestion", forward_to=queue)
    yield Log(site, queue)
    site.shop.delete(queue)


def test_a_copy_is_the_failure_byte_for_byte_with_one_header_more(site: Site, log: Log) -> None:
    site.shop.fail(COUNT)
    site.host.start_ready()
    log.wait_sent(COUNT)

    codec, got = log.receive(COUNT)

    expected = {
        str(key): (codec.canonical(codec.edit(bytes(raw), stamp(str(key)))), bytes(body))
        for key, raw, body in site.query(ORIGINALS)
    }
    copies = {
        codec.read(each.raw).text(LOGGED_ID): (codec.canonical(each.raw), each.body) for each in got
    }
    assert len(expected) == COUNT
    assert copies == expected


def stamp(unique_message_id: str) -> Edit:
    return Edit(set_headers={LOGGED_ID: unique_message_id}, set_fields={"delivery_mode": 2})


def test_a_repeated_failure_goes_there_again_and_a_confirmation_does_not(
    site: Site, log: Log
) -> None:
    site.shop.fail(2)
    service = site.host.start_ready()
    log.wait_sent(2)
    with service.http as http:
        http.post("/api/errors/retry/all")
    again, confirmed = site.shop.take(site.shop.orders, 2)

    site.shop.fail_again(again)
    site.shop.confirm(confirmed)

    wait_until(lambda: site.shop.depth(site.shop.error) == 0, 30)
    log.wait_sent(3)
    key = "ServiceControl.Retry.UniqueMessageId"
    assert log.ids(3) == {again.headers[key]: 2, confirmed.headers[key]: 1}


@ONE_IS_ENOUGH
def test_what_the_broker_brings_again_after_a_kill_is_not_sent_again(site: Site, log: Log) -> None:
    site.shop.fail(COUNT)
    doomed = site.host.start("ingestion", crash_at="ingestion.after_record:3")
    assert doomed.wait_dead() == -signal.SIGKILL
    site.host.start_ready()

    log.wait_sent(COUNT)
    wait_until(lambda: site.shop.depth(site.shop.error) == 0, 30)

    assert set(log.ids(COUNT).values()) == {1}


@ONE_IS_ENOUGH
def test_only_the_processor_sends_and_the_next_one_goes_on(site: Site, log: Log) -> None:
    first = site.host.start_ready()
    second = site.host.start_ready()
    wait_until(lambda: "processor.waiting_for_lease" in second.names(), 30)
    site.shop.fail(COUNT)
    log.wait_sent(COUNT)
    assert set(log.ids(COUNT).values()) == {1}

    first.kill()
    site.shop.fail(COUNT)
    log.wait_sent(2 * COUNT)

    assert set(log.ids(COUNT).values()) == {1}


@ONE_IS_ENOUGH
def test_a_queue_that_is_missing_holds_up_nothing_and_gets_all_when_it_is_there(
    site: Site, log: Log
) -> None:
    site.shop.delete(log.queue)
    service = site.host.start_ready()
    site.shop.fail(COUNT)
    wait_until(lambda: service.find("outgoing.queue_failed"), 30, "the log names the queue")
    wait_until(lambda: site.count(STORED) == COUNT, 30, "all are stored")
    with service.http as http:
        http.post("/api/errors/retry/all")
    site.shop.take(site.shop.orders, COUNT)
    assert site.count(WAITING) == COUNT

    site.shop.declare(log.queue)

    log.wait_sent(COUNT)
    assert set(log.ids(COUNT).values()) == {1}
    wait_until(lambda: service.find("outgoing.queue_recovered"), 30)
    assert len(service.find("outgoing.queue_failed")) == 1


@ONE_IS_ENOUGH
def test_what_waits_is_sent_though_no_log_queue_is_set_any_more(site: Site, log: Log) -> None:
    site.shop.delete(log.queue)
    first = site.host.start_ready()
    site.shop.fail(COUNT)
    wait_until(lambda: site.count(WAITING) == COUNT, 30)
    assert first.stop() == 0
    site.shop.declare(log.queue)

    site.host.configure("ingestion", forward_to="")
    site.host.start_ready()
    log.wait_sent(COUNT)

    assert set(log.ids(COUNT).values()) == {1}


@pytest.mark.waits
@ONE_IS_ENOUGH
def test_a_stop_does_not_wait_for_a_broker_that_is_frozen(
    site: Site, log: Log, amqp_url: str
) -> None:
    with TcpProxy(amqp_url) as proxy:
        service = site.host.start_ready(environ={"RETRIER_BROKER__URL": proxy.url})
        site.shop.fail(COUNT)
        log.wait_sent(COUNT)
        # Given copies that are on their way when the broker freezes
        proxy.freeze()
        another = site.host.start("ingestion")
        site.shop.fail(COUNT)
        wait_until(lambda: site.count(STORED) == 2 * COUNT, 30)
        another.kill()

        began = monotonic()
        service.terminate()
        assert service.wait_dead(SOON) == 0
        print(f"stopped within {monotonic() - began:.1f} s")  # noqa: T201 - shown by -rP

    site.host.start_ready()
    log.wait_sent(2 * COUNT)
    assert len(log.ids(2 * COUNT)) == 2 * COUNT
