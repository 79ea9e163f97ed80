"""Messages that fail and are retried all the time, on a cluster whose nodes are killed meanwhile."""

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic

import httpx
import pika.exceptions

from tests.faults.work import RECORDED, STORED
from tests.journeys.conftest import Site
from tests.support.private_cluster import ClusterNode, PrivateCluster
from tests.support.servers import pika_connection
from tests.support.service import Service
from tests.support.shop import Shop
from tests.support.waiting import wait_until

GOES_ON_WITHIN = 10.0
"""Seconds after the death of a node within which both ways go on, while it stays dead."""
SOME = 50
"""So many messages more in the database prove that a way goes on: more than was under way."""
MIDDLE = 200
"""So many have been recorded when a node is killed."""
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
    doubled: int = 0
    _asked: float = 0.0

    def put(self, count: int) -> None:
        """Put failed messages on the error queue; the service takes them as it can."""
        shop = self.reconnect()
        shop.channel.confirm_delivery()
        self.failed |= set(shop.fail(count))

    def must_go_on_without(self, node: ClusterNode) -> float:
        """Kill the node in the middle of both ways; return the seconds until both went on.

        The node stays dead.
        """
        recorded = self.site.count(RECORDED)
        self._wait(lambda: self.site.count(RECORDED) >= recorded + MIDDLE, ROOM, "it retries")
        stored, recorded = self._count_in_the_middle()
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
        shop = self.reconnect()
        return Counter(each.properties.message_id for each in shop.take(shop.orders, 0))

    def reconnect(self) -> Shop:
        """Return the shop, connected to a node that lives."""
        shop: Shop = self.site.shop
        with suppress(pika.exceptions.AMQPError, OSError):
            shop.channel.connection.close()
        shop.channel = pika_connection(self.cluster.live_url).channel()
        return shop

    def _wait(self, predicate: Callable[[], bool], deadline: float, what: str) -> None:
        def asked() -> bool:
            self._ask()
            return predicate()

        wait_until(asked, deadline, what)

    def _ask(self) -> None:
        """Ask for a retry of all there is, every second."""
        if monotonic() - self._asked < ASK_EVERY:
            return
        self._asked = monotonic()
        with self.service.http as http, suppress(httpx.TransportError):
            http.post(RETRY_ALL).raise_for_status()

    def _count_in_the_middle(self) -> tuple[int, int]:
        stored, recorded = self.site.count(STORED), self.site.count(RECORDED)
        assert stored < len(self.failed) - SOME
        return stored, recorded

    def _is_done(self) -> bool:
        stored = self.site.count(STORED) == len(self.failed)
        return stored and not self.site.count(WAITING) and not self.site.count(UNFINISHED)

    def _is_ready(self) -> bool:
        with self.service.http as http:
            return http.get("/health/ready").status_code == 200
