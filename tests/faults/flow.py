"""Messages that fail and are retried all the time, on a cluster whose nodes are killed meanwhile."""

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from time import monotonic

import httpx
import pika.exceptions

from tests.faults.work import RECORDED, STORED
from tests.journeys.conftest import Site
from tests.support.private_cluster import ClusterNode, PrivateCluster
from tests.support.service import Service
from tests.support.shop import Sent, Shop
from tests.support.waiting import let_pass, wait_until

GOES_ON_WITHIN = 10.0
"""Seconds after the death of a node within which both ways go on, while it stays dead."""
SOME = 50
"""So many messages more in the database prove that a way goes on: more than was under way."""
GATHERED, MIDDLE = 800, 100
"""So many are sent back together, and so many of them are recorded when a node is killed."""
RATE = 100
"""So many messages fail in a second."""
ASK_EVERY = 1.0
ROOM = 180

RETRY_ALL = "/api/errors/retry/all"
WAITING = "SELECT count(*) FROM failed_messages WHERE status = 'unresolved'"
UNFINISHED = "SELECT count(*) FROM retry_operations WHERE state <> 'completed'"


@dataclass(slots=True)
class Flow:
    """A service that ingests and retries at the same time, and the cluster under it."""

    site: Site
    cluster: PrivateCluster
    service: Service
    failed: set[str] = field(default_factory=set)
    _asked: float = 0.0

    @contextmanager
    def failing(self, count: int) -> Iterator[None]:
        """Let so many messages fail meanwhile, one after the other; wait for the last one."""
        with ThreadPoolExecutor(1) as other_side:
            failing = other_side.submit(self._fail, count)
            yield
            failing.result()

    def must_retry(self, count: int) -> None:
        """Wait until so many more are sent back."""
        wanted = self.site.count(RECORDED) + count
        self._wait(lambda: self.site.count(RECORDED) >= wanted, ROOM, "it retries")

    def must_go_on_without(self, node: ClusterNode) -> float:
        """Kill the node in the middle of both ways; return the seconds until both went on.

        The node stays dead.
        """
        wait_until(lambda: self.site.count(WAITING) >= GATHERED, ROOM, "enough is stored")
        self.must_retry(MIDDLE)
        stored, recorded = self.site.count(STORED), self.site.count(RECORDED)
        assert recorded < stored - SOME
        node.kill()
        killed = monotonic()
        self._wait(
            lambda: (
                self.site.count(STORED) >= stored + SOME
                and self.site.count(RECORDED) >= recorded + SOME
                and self._is_ready()
            ),
            GOES_ON_WITHIN,
            f"it is ready, ingests and retries without {node.name}",
        )
        return monotonic() - killed

    def must_finish(self) -> None:
        """Wait until all that failed is stored, and all of it sent back."""
        self._wait(self._is_done, ROOM, "all is stored and sent back")

    def attempts(self) -> dict[str, int]:
        """Return how often each message is stored as failed."""
        return dict(self.site.query("SELECT message_id, attempts FROM failed_messages"))

    def sent(self) -> Counter[str]:
        """Take everything off the destination; return how often each message came."""
        shop = self._connect()
        return Counter(each.properties.message_id for each in shop.take(shop.orders, 0))

    def _wait(self, predicate: Callable[[], bool], deadline: float, what: str) -> None:
        def asked() -> bool:
            self._ask()
            return predicate()

        wait_until(asked, deadline, what)

    def _fail(self, count: int) -> None:
        """Publish until each is confirmed: what goes down with a node is published again."""
        shop = self._connect()
        for failure in shop.make_failures(count):
            while not is_confirmed(shop, failure):
                shop = self._connect()
            self.failed.add(failure.properties.message_id)
            let_pass(1 / RATE)

    def _connect(self) -> Shop:
        """Return the shop, connected to a node that lives."""
        shop: Shop = self.site.shop
        with suppress(pika.exceptions.AMQPError, OSError):
            shop.channel.connection.close()
        shop.channel = self.cluster.connect().channel()
        shop.channel.confirm_delivery()
        return shop

    def _ask(self) -> None:
        """Ask for a retry of all there is, every second."""
        if monotonic() - self._asked < ASK_EVERY:
            return
        self._asked = monotonic()
        with self.service.http as http, suppress(httpx.TransportError):
            http.post(RETRY_ALL).raise_for_status()

    def _is_done(self) -> bool:
        stored = self.site.count(STORED) == len(self.failed)
        return stored and not self.site.count(WAITING) and not self.site.count(UNFINISHED)

    def _is_ready(self) -> bool:
        with self.service.http as http:
            return http.get("/health/ready").status_code == 200


def is_confirmed(shop: Shop, failure: Sent) -> bool:
    """Put it on the error queue; say whether the broker has confirmed it."""
    with suppress(pika.exceptions.AMQPError, OSError):
        shop.channel.basic_publish("", shop.error, failure.body, failure.properties)
        return True
    return False
