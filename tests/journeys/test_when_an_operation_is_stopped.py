"""A bulk that is paused, cancelled or slowed while it runs, also over a kill.

The sizes of an installation: `pytest -m kills tests/journeys/test_when_an_operation_is_stopped.py`.
What measures a rate runs alone: `pytest -m alone` of the same file.
"""

import signal
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import httpx
import pytest

from retrier.domain import headers
from retrier.domain.retry_operation import Canary, RetryTerms
from retrier.store.engine.database import Database
from tests.journeys.conftest import Site
from tests.kills.test_while_retrying import NOTHING
from tests.support.asking import ask_all, opened_store, store_failures
from tests.support.service import Service
from tests.support.waiting import wait_until

pytestmark = pytest.mark.journey

DEADLINE = 120
SIZES = [
    pytest.param((2000, "forwarding.published:2"), id="2000"),
    pytest.param((20_000, "forwarding.published:10"), id="20000", marks=pytest.mark.kills),
]
"""How many messages there are, and where the process stands still or dies while somebody acts."""
STATE = "SELECT state FROM retry_operations"
COUNTS = "SELECT forwarded, skipped, failed, total FROM retry_operations"
IN_DOUBT = (
    "SELECT count(*) FROM failed_message_retries "
    "WHERE sending_since IS NOT NULL AND forwarded_at IS NULL"
)
CANARY = "SELECT kind, text FROM event_log WHERE kind LIKE 'canary%' ORDER BY event_id"
OPEN = "SELECT count(*) FROM retry_operations WHERE completed_at IS NULL"
FREE = "SELECT count(*) FROM failed_messages WHERE status = 'unresolved'"


@pytest.fixture
def db(site: Site) -> Iterator[Database]:
    """Give the database of the service."""
    with opened_store(site.database_url) as opened:
        yield opened


@dataclass(frozen=True, slots=True, kw_only=True)
class Bulk:
    """An operation over so many messages, and the service that works on it."""

    site: Site
    operation_id: str

    def state(self) -> str:
        return str(self.site.query(STATE)[0][0])

    def arrived(self) -> int:
        return int(self.site.shop.depth(self.site.shop.orders))

    def change(self, service: Service, **body: object) -> httpx.Response:
        with service.http as http:
            return http.patch(f"/api/operations/{self.operation_id}", json=body)

    def cancel(self, service: Service) -> httpx.Response:
        with service.http as http:
            return http.delete(f"/api/operations/{self.operation_id}")

    def ask_again(self, service: Service) -> httpx.Response:
        service.wait_ready()
        with service.http as http:
            return http.post("/api/errors/retry/all")

    def show(self, service: Service) -> Any:
        with service.http as http:
            return http.get(f"/api/operations/{self.operation_id}").json()


def ask(site: Site, db: Database, count: int, terms: RetryTerms, queue: str | None = None) -> Bulk:
    shop = site.shop
    raw = NOTHING[db.is_sqlite]
    store_failures(db, count, queue=queue or shop.orders, error_queue=shop.error, raw=raw)
    return Bulk(site=site, operation_id=ask_all(db, terms))


def wait_for(bulk: Bulk, state: str) -> None:
    wait_until(lambda: bulk.state() == state, DEADLINE, f"it is {state}")


def take(site: Site, at_least: int) -> Counter[str]:
    """Take what has arrived; count the copies of each message."""
    taken = site.shop.take(site.shop.orders, at_least)
    return Counter(str(each.headers[headers.UNIQUE_MESSAGE_ID]) for each in taken)


def start_bulk(site: Site, db: Database, count: int, point: str) -> tuple[Bulk, Service, Service]:
    """Return a bulk that is under way, the process that works on it, and one that can be asked.

    The first one is frozen where there are servers. On SQLite it might hold the lock of the file
    then, and nobody could ask for anything: there the bulk is slow.
    """
    if db.is_sqlite:
        bulk = ask(site, db, count, RetryTerms(rate=count // 15))
        service = site.host.start_ready()
        wait_until(lambda: bulk.arrived() > 0, DEADLINE, "some have arrived")
        return bulk, service, service
    bulk = ask(site, db, count, RetryTerms())
    service = site.host.start(freeze_at=point)
    wait_until(service.is_frozen, DEADLINE, "it stands still")
    return bulk, service, site.host.start_ready("api")


@pytest.mark.parametrize("size", SIZES)
def test_a_pause_outlives_a_kill_and_nothing_is_lost_or_doubled(
    site: Site, db: Database, size: tuple[int, str]
) -> None:
    # Given a process in the middle of a bulk
    count, point = size
    bulk, service, asked = start_bulk(site, db, count, point)

    # When it is paused, then the destination stands still within a batch
    assert bulk.change(asked, paused=True).status_code == 200
    before = bulk.arrived()
    service.wake()
    wait_until(lambda: site.count("SELECT count(*) FROM retry_batches") == 0, DEADLINE, "it stands")
    stands = bulk.arrived()
    assert stands - before <= 1000
    assert stands < count

    # and also after a kill
    service.kill()
    again = site.host.start_ready()
    assert (bulk.state(), bulk.arrived()) == ("paused", stands)

    # and all of it arrives once when it goes on
    bulk.change(again, paused=False, rate=None)
    wait_for(bulk, "completed")
    copies = take(site, count)
    assert (len(copies), copies.total()) == (count, count)
    assert site.query(COUNTS) == [(count, 0, 0, count)]


@pytest.mark.parametrize("size", SIZES)
def test_a_cancel_over_a_kill_sends_only_what_was_in_doubt(
    site: Site, db: Database, size: tuple[int, str]
) -> None:
    # Given a process that dies in the middle of a bulk, between staging and the second window
    count, point = size
    bulk = ask(site, db, count, RetryTerms())
    doomed = site.host.start(crash_at=point)
    assert doomed.wait_dead(DEADLINE) == -signal.SIGKILL
    doubt, arrived = site.count(IN_DOUBT), bulk.arrived()

    # When it is cancelled before the next processor comes up
    assert bulk.cancel(site.host.start_ready("api")).status_code == 202
    service = site.host.start()
    wait_for(bulk, "cancelled")

    # Then only what was in doubt was sent any more, and the rest is free
    forwarded, skipped, failed, total = site.query(COUNTS)[0]
    assert forwarded + skipped + failed == total == count
    assert bulk.arrived() - arrived <= doubt
    assert site.count(FREE) == count - forwarded
    first = take(site, forwarded)
    assert len(first) == forwarded
    assert first.total() - forwarded <= doubt

    # and a new retry of all sends each of the rest once
    assert bulk.ask_again(service).status_code == 202
    rest = take(site, count - forwarded)
    wait_until(lambda: site.count(OPEN) == 0, DEADLINE, "the new one completes")
    rest += take(site, 0)
    assert (len(rest), rest.total()) == (count - forwarded, count - forwarded)
    assert not first.keys() & rest.keys()


def test_a_canary_that_comes_back_pauses_the_operation_with_the_reason(
    site: Site, db: Database
) -> None:
    canary = Canary(size=20, wait=timedelta(milliseconds=300))
    bulk = ask(site, db, 200, RetryTerms(canary=canary), queue=f"{site.shop.orders}.gone")
    service = site.host.start_ready()

    wait_for(bulk, "paused")

    shown = bulk.show(service)
    assert (shown["failed"], shown["forwarded"]) == (20, 0)
    assert shown["waits_because"] == "20 of 20 came back: resume or cancel it"


def test_a_canary_that_is_confirmed_goes_on_by_itself(site: Site, db: Database) -> None:
    canary = Canary(size=20, wait=timedelta(milliseconds=300))
    bulk = ask(site, db, 200, RetryTerms(canary=canary))
    site.host.start()
    wait_for(bulk, "completed")

    sent, passed = site.query(CANARY)
    assert sent == (
        "canary_sent",
        "the first 20 messages went out: waiting 0.3 s for what comes back",
    )
    assert passed[0] == "canary_passed"
    assert take(site, 200).total() == 200


def test_a_canary_waits_for_a_process_that_reads_the_error_queue(site: Site, db: Database) -> None:
    bulk = ask(site, db, 60, RetryTerms(canary=Canary(size=20, wait=timedelta(milliseconds=300))))
    working = site.host.start_ready("processor", "api")
    wait_until(lambda: "not judged yet" in bulk.show(working).get("waits_because", ""), DEADLINE)
    assert sum(1 for _ in site.query(CANARY)) == 1

    site.host.start("ingestion")

    wait_for(bulk, "completed")
    assert take(site, 60).total() == 60


def watch(bulk: Bulk, seconds: float) -> list[tuple[float, int]]:
    """Note how many messages have arrived, whenever more have, for so long."""
    seen = [(time.monotonic(), bulk.arrived())]
    while seen[-1][0] < seen[0][0] + seconds:
        wait_until(lambda: bulk.arrived() > seen[-1][1], 30, "more arrive")
        seen.append((time.monotonic(), bulk.arrived()))
    return seen


def busiest(seen: list[tuple[float, int]], length: float) -> int:
    """Return how many messages arrived in the busiest stretch of so many seconds."""
    return max(
        number - first for at, first in seen for then, number in seen if at <= then <= at + length
    )


@pytest.mark.alone
@pytest.mark.parametrize(
    "kind", [pytest.param("classic", marks=[pytest.mark.rabbitmq, pytest.mark.postgres])]
)
def test_a_rate_is_held_and_a_change_of_it_is_followed(site: Site, db: Database) -> None:
    bulk = ask(site, db, 1500, RetryTerms(rate=50))
    service = site.host.start_ready()

    # When it runs, then any second has 60 at most, and ten seconds have 500, give or take a tenth
    seen = watch(bulk, 10)
    arrived = seen[-1][1] - seen[0][1]
    told = {"busiest second": busiest(seen, 1.0), "in 10 s": arrived}
    print(told)  # noqa: T201 - the figures of the run
    assert busiest(seen, 1.0) <= 60
    assert 450 <= arrived / (seen[-1][0] - seen[0][0]) * 10 <= 550

    # and a change is followed within 2 s
    assert bulk.change(service, rate=500).status_code == 200
    changed = (time.monotonic(), bulk.arrived())
    wait_until(lambda: time.monotonic() >= changed[0] + 2, 5, "two seconds are over")
    followed = bulk.arrived() - changed[1]
    print({"in 2 s after the change": followed})  # noqa: T201 - the figures of the run
    assert followed >= 500
    wait_for(bulk, "completed")
