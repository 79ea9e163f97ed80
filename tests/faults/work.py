"""A service in the middle of its work, both ways, and what a fault did to it."""

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

import pika.exceptions
import yaml

from tests.journeys.conftest import Site
from tests.support.servers import pika_connection
from tests.support.service import Service, hosted
from tests.support.shop import Shop
from tests.support.waiting import wait_until

RETRIED = 600
ARRIVING = 300
WINDOW = 20
PREFETCH = 1
"""Slow on purpose, so that a fault falls in the middle."""
RECOVERY = 30
"""Seconds after the end of a fault in which the service works again by itself."""
ROOM = 30
"""Seconds more for the work that is left, on a machine that has other things to do."""
BUSY = 0.4
"""So much of one core is the most a service may use up while it can do nothing."""
REASONS = 4
"""So many reasons at most may one part see in one fault: reset, refused, starting up, ..."""
LONG_ENOUGH = 2
"""Seconds of a fault from which on that can be judged."""

STORED = "SELECT count(*) FROM failed_messages"
RECORDED = "SELECT count(*) FROM failed_message_retries WHERE forwarded_at IS NOT NULL"
STATES = "SELECT state FROM retry_operations"


@dataclass(slots=True)
class Work:
    """Messages on their way in and messages on their way back, and the process that moves them."""

    site: Site
    broker_url: str
    service: Service
    retried: frozenset[str]
    arriving: frozenset[str]
    cpu_share: float = 0.0
    """How much of one core the process used while the fault lasted."""
    _told: int = field(default=0)
    _done: tuple[int, int] = field(default=(0, 0))

    def wait_for(self, event: str) -> None:
        """Wait until the service has said so, and ingests."""
        wait_until(lambda: event in self.service.names(), 30, event)
        wait_until(lambda: self.site.count(STORED) > RETRIED, 30, "some is ingested")

    def wait_for_the_middle(self) -> None:
        """Wait until some is forwarded, and there is more to ingest and to forward."""
        self.wait_for("batch.forwarding")
        wait_until(lambda: self.site.count(RECORDED) >= WINDOW, 30, "some is forwarded")

    @contextmanager
    def fault(self) -> Iterator[None]:
        """Watch the process while a fault lasts; it has to fall in the middle of both ways."""
        assert self.site.query(STATES) != [("completed",)]
        assert RETRIED < self.site.count(STORED) < RETRIED + ARRIVING
        self._told = len(self.service.logged)
        cpu, began = cpu_seconds(self.service.pid), monotonic()
        yield
        self._done = self._count()
        lasted = monotonic() - began
        if lasted >= LONG_ENOUGH:
            self.cpu_share = (cpu_seconds(self.service.pid) - cpu) / lasted
            print(f"cpu {self.cpu_share:.2f} of a core for {lasted:.1f} s")  # noqa: T201 - shown with a failure only

    def must_finish(self) -> None:
        """Wait until all is stored and the operation is complete."""
        wait_until(self._works_again, RECOVERY, "it is ready, ingests and forwards")
        wait_until(lambda: self._is_complete() and self._is_all_stored(), ROOM, "all is done")

    def attempts(self) -> dict[str, int]:
        """Return how often each message is stored as failed."""
        return {
            row[0]: row[1]
            for row in self.site.query("SELECT message_id, attempts FROM failed_messages")
        }

    def sent(self) -> Counter[str]:
        """Take everything off the destination; return how often each message came."""
        shop = self.reconnect()
        return Counter(each.properties.message_id for each in shop.take(shop.orders, 0))

    def reconnect(self) -> Shop:
        """Return the shop, connected anew: a fault breaks everybody's connections."""
        shop: Shop = self.site.shop
        with suppress(pika.exceptions.AMQPError, OSError):
            shop.channel.connection.close()
        shop.channel = pika_connection(self.broker_url).channel()
        return shop

    def problems(self) -> list[tuple[str, str, str]]:
        """Return the lines that tell of something wrong, since the fault began."""
        return [
            (line.get("event", ""), line.get("tick", ""), str(line.get("reason", line.get("text"))))
            for line in self.service.logged[self._told :]
            if line.get("level") not in (None, "info")
        ]

    def repeated(self) -> list[tuple[str, str, str]]:
        """Return what was told more than once: a change of state is told once, a try never."""
        return [line for line, times in Counter(self.problems()).items() if times > 1]

    def longest_story(self) -> int:
        """Return in how many lines at most one part told of the fault."""
        return max(Counter(line[:2] for line in self.problems()).values(), default=0)

    def _count(self) -> tuple[int, int]:
        return self.site.count(STORED), self.site.count(RECORDED)

    def _works_again(self) -> bool:
        """Whether both ways go on, or have come to their end."""
        stored, recorded = (now > then for now, then in zip(self._count(), self._done, strict=True))
        ingests = stored or self._is_all_stored()
        return ingests and (recorded or self._is_complete()) and self._is_ready()

    def _is_complete(self) -> bool:
        return self.site.query(STATES) == [("completed",)]

    def _is_all_stored(self) -> bool:
        return self.site.count(STORED) == len(self.retried) + len(self.arriving)

    def _is_ready(self) -> bool:
        with self.service.http as http:
            return http.get("/health/ready").status_code == 200


def cpu_seconds(pid: int) -> float:
    """Return the processor time a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def begin_work(site: Site, broker_url: str) -> Work:
    """Have messages stored and their retry asked for, put more on the error queue, then start."""
    retried = put_failures(site, RETRIED)
    with hosted(site.host.config.parent / "before", read_fast(site)) as before:
        asking = before.start_ready("ingestion", "api")
        wait_until(lambda: site.count(STORED) == RETRIED, 60, "what shall be retried is stored")
        with asking.http as http:
            http.post("/api/errors/retry/all").raise_for_status()
        asking.stop()
    arriving = put_failures(site, ARRIVING)
    return Work(site, broker_url, site.host.start(), retried, arriving)


def put_failures(site: Site, count: int) -> frozenset[str]:
    """Put failed messages on the error queue; return their ids when the broker has them all."""
    failed = frozenset(site.shop.fail(count))
    wait_until(lambda: site.shop.depth(site.shop.error) == count, 30, "all are on the error queue")
    return failed


def read_fast(site: Site) -> dict[str, Any]:
    """Return the settings of the site, but for a prefetch that slows ingestion down."""
    settings: dict[str, Any] = yaml.safe_load(site.host.config.read_text())
    settings["ingestion"].pop("prefetch")
    return settings


def check(work: Work, faults: int = 1) -> None:
    """Nothing lost, no more than a window twice, and neither busy nor noisy meanwhile."""
    assert dict.fromkeys(work.retried | work.arriving, 1) == work.attempts()
    sent: Any = work.sent()
    assert work.retried - set(sent) == set()
    assert sum(sent.values()) - len(sent) <= faults * WINDOW
    rows = work.site.query("SELECT total, forwarded, skipped, failed FROM retry_operations")
    assert rows == [(RETRIED, RETRIED, 0, 0)]
    assert work.cpu_share < BUSY
    assert work.repeated() == []
    assert work.longest_story() <= REASONS
