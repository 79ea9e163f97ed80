"""A consumer fails everything: its messages wait, others go on, and follow when it is repaired.

In the sizes of an installation: `pytest -m kills tests/journeys/test_when_a_destination_fails.py`.
"""

import signal
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from pika import BasicProperties

from retrier.domain.retry_operation import RetryTerms
from tests.journeys.conftest import RABBITMQ_AND_POSTGRES, Site
from tests.support.asking import ask_all, opened_store
from tests.support.service import Service
from tests.support.shop import failure_headers
from tests.support.waiting import wait_until

pytestmark = pytest.mark.journey

DEADLINE = 300
BATCH, WINDOW, RATE, SOME = 1000, 200, 500, 50
COOLDOWN = 3
BREAKERS = {"RETRIER_BREAKERS__COOLDOWN": f"{COOLDOWN}s", "RETRIER_BREAKERS__MIN": "20"}
TRIALS = "SELECT count(*) FROM event_log WHERE kind = 'breaker_half_opened'"
CUT = RATE // 5
"""A rated cut takes a fifth of what a second may send."""
SIZES = [
    pytest.param("classic", 1000, id="classic-1000", marks=RABBITMQ_AND_POSTGRES),
    pytest.param(
        "classic", 10_000, id="classic", marks=[*RABBITMQ_AND_POSTGRES, pytest.mark.kills]
    ),
    pytest.param("quorum", 10_000, id="quorum", marks=[*RABBITMQ_AND_POSTGRES, pytest.mark.kills]),
    pytest.param("embedded", 10_000, id="embedded", marks=pytest.mark.kills),
]
STATE = "SELECT state FROM breakers WHERE name = '{}'"
UNRESOLVED = "SELECT count(*) FROM failed_messages WHERE status = 'unresolved'"
OPERATION = "SELECT state, forwarded, skipped, failed FROM retry_operations"


class Consumer:
    """Takes what is sent to `orders`; fails it while it is broken."""

    def __init__(self, site: Site) -> None:
        self._shop = site.shop
        self.broken = True
        self.got: Counter[str] = Counter()

    def work(self) -> None:
        """Take everything that is there."""
        for sent in self._shop.take(self._shop.orders, 0):
            self.got[sent.headers["ServiceControl.Retry.UniqueMessageId"]] += 1
            if self.broken:
                self._shop.fail_again(sent)

    def wait(self, predicate: Callable[[], object], what: str) -> None:
        """Work until something is so."""

        def working() -> object:
            self.work()
            return predicate()

        wait_until(working, DEADLINE, what)


class FastConsumer(Consumer):
    """The same on RabbitMQ, without confirms: it is to fail messages as fast as they come."""

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._channel = site.shop.channel.connection.channel()

    def work(self) -> None:
        """Take everything that is there."""
        while True:
            method, properties, body = self._channel.basic_get(self._shop.orders, auto_ack=True)
            if method is None:
                return
            self.got[properties.headers["ServiceControl.Retry.UniqueMessageId"]] += 1
            if self.broken:
                headers = {**properties.headers, **failure_headers(self._shop.orders)}
                again = BasicProperties(message_id=properties.message_id, headers=headers)
                self._channel.basic_publish("", self._shop.error, body, again)


def make_consumer(site: Site) -> Consumer:
    return Consumer(site) if _is_embedded(site) else FastConsumer(site)


def good_queue_of(site: Site) -> str:
    """Return a second queue of the shop, whose messages nobody fails."""
    return str(site.shop.declare("payments") if _is_embedded(site) else site.shop.payments)


def _is_embedded(site: Site) -> bool:
    return site.database_url.startswith("sqlite")


def state_of(site: Site) -> str:
    rows = site.query(STATE.format(site.shop.orders))
    return str(rows[0][0]) if rows else "none"


def start(site: Site) -> Service:
    return site.host.start_ready(environ=BREAKERS)


def show(service: Service) -> Any:
    with service.http as http:
        return http.get("/api/breakers").json()


def fail_all(site: Site, count: int, *queues: str) -> None:
    """Let messages of two queues fail, in turns."""
    shop = site.shop
    for _ in range(count // SOME):
        for queue in queues:
            shop.fail(SOME, queue=queue)
    wait_until(lambda: site.count(UNRESOLVED) == 2 * count, DEADLINE, "all have failed")


def retry_all(site: Site) -> None:
    with opened_store(site.database_url) as db:
        ask_all(db, RetryTerms(rate=RATE))


@pytest.mark.parametrize(("kind", "count"), SIZES, indirect=["kind"])
def test_only_its_own_messages_wait_and_the_rest_follows_by_itself(site: Site, count: int) -> None:
    # Given messages of two queues, and a consumer of one of them that fails everything
    shop, consumer, good = site.shop, make_consumer(site), good_queue_of(site)
    service = start(site)
    fail_all(site, count, shop.orders, good)

    # When all of them are retried
    retry_all(site)
    consumer.wait(lambda: state_of(site) == "open", "it opens")
    words = ": its messages wait, others go on"
    consumer.wait(lambda: words in (show(service)[0]["waits_because"] or ""), "and says so")
    consumer.wait(lambda: shop.depth(good) == count, "the other queue gets all")
    assert state_of(site) != "closed"
    assert len(consumer.got) <= min(BATCH + WINDOW, count - CUT)

    # Then a kill does not close it, and one message after the other tries it
    service.kill()
    assert service.wait_dead(DEADLINE) == -signal.SIGKILL
    assert state_of(site) != "closed"
    start(site)
    before = len(consumer.got)
    consumer.wait(lambda: len(consumer.got) > before, "one message tries it")
    consumer.wait(lambda: state_of(site) == "open", "it opens again")
    assert len(consumer.got) - before <= site.count(TRIALS)

    # And when it is repaired, the rest follows by itself, each once
    consumer.broken = False
    consumer.wait(lambda: site.query(OPERATION)[0][0] == "completed", "the rest follows")
    consumer.work()
    assert site.query(OPERATION) == [("completed", 2 * count, 0, 0)]
    assert (len(consumer.got), set(consumer.got.values())) == (count, {1})


@pytest.mark.parametrize(
    "kind", [pytest.param("classic", marks=RABBITMQ_AND_POSTGRES)], indirect=True
)
def test_a_consumer_that_never_confirms_and_fails_1_in_100_gets_everything(site: Site) -> None:
    shop, count = site.shop, 600
    start(site)
    shop.fail(count)
    wait_until(lambda: site.count(UNRESOLVED) == count, DEADLINE, "all have failed")
    retry_all(site)

    taken = shop.take(shop.orders, count)
    for sent in taken[::100]:
        shop.fail_again(sent)
    wait_until(lambda: site.count(UNRESOLVED) == len(taken[::100]), DEADLINE, "they are back")

    assert state_of(site) == "closed"
    assert len(taken) == count
