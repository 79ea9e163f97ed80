"""A service in the middle of its work, both ways, and what a fault did to it."""

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

import pika.exceptions

from tests.faults.stories import are_over, count_lines, find_noise
from tests.journeys.conftest import Site
from tests.support.servers import pika_connection
from tests.support.service import Service
from tests.support.shop import Shop
from tests.support.waiting import wait_until

RETRIED = 600
ARRIVING = 600
WINDOW = 20
PREFETCH = 1
"""Slow on purpose, so that a fault falls in the middle."""
RECOVERY = 30
"""Seconds after the end of a fault in which the service works again by itself."""
ROOM = 90
"""Seconds more for the work that is left, on a machine that has other things to do."""
BUSY = 0.4
"""So much of one core is the most a service may use up while it can do nothing."""
LONG_ENOUGH = 2
"""Seconds of a fault from which on that can be judged."""
ALL_TICKS = 15
"""Seconds in which every recurring job has been tried once more."""

STORED = "SELECT count(*) FROM failed_messages"
RECORDED = "SELECT count(*) FROM failed_message_retries WHERE forwarded_at IS NOT NULL"
STATES = "SELECT state FROM retry_operations"
STAGES = "SELECT status FROM retry_batches"
TOTALS = "SELECT total, forwarded, skipped, failed FROM retry_operations"


@dataclass(slots=True)
class Figures:
    """What is measured of one fault."""

    name: str
    stage: str = "-"
    recovery: float = 0.0
    """Seconds from the end of the fault until it is ready, ingests again and forwards again."""
    doubled: int = 0
    cpu_share: float | None = None
    """How much of one core the process used while the fault lasted; None: it was too short."""
    lines: int = 0
    """How many lines told of a trouble or of its end."""


@dataclass(slots=True)
class Work:
    """Messages on their way in and messages on their way back, and the process that moves them."""

    site: Site
    broker_url: str
    service: Service
    retried: frozenset[str]
    arriving: frozenset[str]
    figures: Figures
    _told: int = 0
    _done: tuple[int, int] = (0, 0)
    _ended: float = 0.0

    def wait_for_staging(self) -> None:
        """Wait until some is in the staging queue, more has to come, and some is ingested."""
        wait_until(lambda: self.site.query(STAGES) == [("staging",)], 30, "it is staging")
        wait_until(lambda: self.site.count(STORED) > RETRIED, 30, "some is ingested")
        wait_until(self._holds_copies, 30, "some is staged")
        assert self.site.query(STAGES) == [("staging",)]

    def wait_for_forwarding(self) -> None:
        """Wait until some is forwarded and some is ingested, and there is more of both."""
        wait_until(lambda: self.site.count(STORED) > RETRIED, 30, "some is ingested")
        wait_until(lambda: self.site.count(RECORDED) >= WINDOW, 30, "some is forwarded")

    def wait_for(self, stage: str) -> None:
        """Wait for the middle of a stage."""
        {"staging": self.wait_for_staging, "forwarding": self.wait_for_forwarding}[stage]()

    @contextmanager
    def fault(self) -> Iterator[None]:
        """Watch the process while a fault lasts; it has to fall in the middle of both ways."""
        ((self.figures.stage,),) = self.site.query(STAGES)
        assert RETRIED < self.site.count(STORED) < RETRIED + ARRIVING
        self._told = len(self.service.logged)
        cpu, began = cpu_seconds(self.service.pid), monotonic()
        yield
        self._ended = monotonic()
        if self._ended - began >= LONG_ENOUGH and self.service.process.poll() is None:
            used = cpu_seconds(self.service.pid) - cpu
            self.figures.cpu_share = used / (self._ended - began)
        self._done = self._count()

    def begin_now(self) -> None:
        """Count the time from now on: this fault has no end but that of the work."""
        self._ended = monotonic()

    def must_finish(self, within: float = RECOVERY) -> None:
        """Wait until it works again, all is stored and the operation is complete."""
        left = within - (monotonic() - self._ended)
        wait_until(self._works_again, left, "it is ready, ingests and forwards")
        self.figures.recovery = monotonic() - self._ended
        wait_until(lambda: self._is_complete() and self._is_all_stored(), ROOM, "all is done")

    def go_on_with(self, service: Service) -> None:
        """Let another process do what is left."""
        self.service, self._told = service, 0

    def attempts(self) -> dict[str, int]:
        """Return how often each message is stored as failed."""
        return {
            row[0]: row[1]
            for row in self.site.query("SELECT message_id, attempts FROM failed_messages")
        }

    def sent(self) -> Counter[str]:
        """Take everything off the destination; return how often each message came."""
        shop = self.reconnect()
        sent = Counter(each.properties.message_id for each in shop.take(shop.orders, 0))
        self.figures.doubled = sum(sent.values()) - len(sent)
        return sent

    def reconnect(self) -> Shop:
        """Return the shop, connected anew: a fault breaks everybody's connections."""
        shop: Shop = self.site.shop
        with suppress(pika.exceptions.AMQPError, OSError):
            shop.channel.connection.close()
        shop.channel = pika_connection(self.broker_url).channel()
        return shop

    def must_be_calm(self) -> None:
        """Check that it was not busy meanwhile, and told each change of state in one line."""
        assert (self.figures.cpu_share or 0) < BUSY
        wait_until(lambda: are_over(self._lines()), ALL_TICKS, "each trouble told has an end")
        self.figures.lines = count_lines(self._lines())
        assert find_noise(self._lines()) == []

    def _lines(self) -> list[dict[str, Any]]:
        return self.service.logged[self._told :]

    def _count(self) -> tuple[int, int]:
        return self.site.count(STORED), self.site.count(RECORDED)

    def _holds_copies(self) -> bool:
        """Whether there is a staging queue yet, and copies in it."""
        shop = self.reconnect()
        with suppress(pika.exceptions.ChannelClosedByBroker):
            return shop.depth(self.site.staging_queue) > WINDOW
        return False

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


def check(work: Work, in_doubt: int = WINDOW) -> None:
    """Nothing lost, no more twice than was in doubt, and neither busy nor noisy meanwhile."""
    assert dict.fromkeys(work.retried | work.arriving, 1) == work.attempts()
    sent: Any = work.sent()
    assert work.retried - set(sent) == set()
    assert work.figures.doubled <= in_doubt
    assert work.site.query(TOTALS) == [(RETRIED, RETRIED, 0, 0)]
    work.must_be_calm()
