"""What is due by policy is sent in time, lets a single retry overtake, and leaves a bulk its share.

All of it measures time: `pytest -m 'waits or alone' tests/journeys/test_when_retries_are_due.py`.
"""

import time
from collections.abc import Iterator
from datetime import timedelta
from statistics import quantiles

import pytest
from sqlalchemy import select

from retrier.domain.retry_operation import RetryRequest, RetryType
from retrier.domain.selection import Selection
from retrier.store.engine.database import Database
from retrier.store.operation_requests import create_operation
from retrier.store.schema import failed_message_retries, failed_messages
from tests.journeys.conftest import RABBITMQ_AND_POSTGRES, Site
from tests.kills.test_while_retrying import NOTHING
from tests.support.asking import opened_store, store_failures
from tests.support.scheduling import schedule
from tests.support.waiting import wait_until

pytestmark = pytest.mark.journey

CLASSIC = pytest.param("classic", marks=RABBITMQ_AND_POSTGRES)
DEADLINE = 120
SOON = timedelta(milliseconds=250)
PROCESSES = 2
"""One of them only waits, as in an installation that must not stop."""
LOOKS = 20
MANY = 8000
BULK = 2500
SINGLES = 4
messages = failed_messages.c
claims = failed_message_retries.c


@pytest.fixture
def db(site: Site) -> Iterator[Database]:
    """Give the database of the service."""
    with opened_store(site.database_url) as opened:
        yield opened


@pytest.fixture
def other(site: Site) -> Iterator[str]:
    """Give a queue beside that of what is due."""
    queue = site.shop.declare(f"{site.shop.orders}.other")
    yield queue
    site.shop.delete(queue)


def store(site: Site, db: Database, count: int, queue: str) -> list[str]:
    """Store failures of a queue; return the ids of all that it has."""
    shop = site.shop
    raw = NOTHING[site.database_url.startswith("sqlite")]
    store_failures(db, count, queue=queue, error_queue=shop.error, raw=raw)
    query = select(messages.unique_message_id).order_by(messages.number.desc()).limit(count)
    return [str(key) for key in db.read(lambda tx: tx.execute(query).scalars().all())]


def forwarded(db: Database) -> dict[str, float]:
    """Return when each message was recorded as sent, in seconds, by the database's clock."""
    query = select(messages.unique_message_id, claims.forwarded_at).join_from(
        failed_message_retries, failed_messages, messages.number == claims.number
    )
    rows = db.read(lambda tx: tx.execute(query.where(claims.forwarded_at.is_not(None))).all())
    return {str(key): at.timestamp() for key, at in rows}


def due_at(db: Database, key: str) -> float:
    query = select(messages.retry_at).where(messages.unique_message_id == key)
    return float(db.read(lambda tx: tx.execute(query).scalar_one()).timestamp())


def sent(site: Site, queue: str) -> int:
    return int(site.shop.depth(queue) or 0)


def p99(values: list[float]) -> float:
    return quantiles(values, n=100, method="inclusive")[98]


@pytest.mark.waits
@pytest.mark.parametrize("kind", ["embedded", CLASSIC])
def test_a_message_is_sent_in_time_while_nothing_else_is_to_be_done(
    site: Site, db: Database
) -> None:
    keys = store(site, db, LOOKS, site.shop.orders)
    for _ in range(PROCESSES):
        site.host.start_ready()

    # When one after the other is scheduled, each by a transaction of its own
    times = {}
    for number, key in enumerate(keys, start=1):
        schedule(db, [key], within=SOON)
        times[key] = due_at(db, key)
        wait_until(lambda n=number: sent(site, site.shop.orders) == n, 30, "it is sent")

    # Then none is early, and hardly any is late
    wait_until(lambda: len(forwarded(db)) == LOOKS, 30, "all are recorded")
    late = [at - times[key] for key, at in forwarded(db).items()]
    worst = 2.0 if db.is_sqlite else 1.0
    told = {"lateness p50": sorted(late)[LOOKS // 2], "p99": p99(late), "most": max(late)}
    print(told)  # noqa: T201 - the figures of the run
    assert min(late) >= 0
    assert p99(late) <= worst


@pytest.mark.alone
@pytest.mark.parametrize("kind", [CLASSIC])
def test_a_single_retry_overtakes_what_is_due(site: Site, db: Database, other: str) -> None:
    singles = store(site, db, SINGLES, other)
    due = store(site, db, MANY, site.shop.orders)
    schedule(db, due)
    service = site.host.start_ready()
    wait_until(lambda: sent(site, site.shop.orders) > 0, DEADLINE, "some are sent")

    took = []
    with service.http as http:
        for number, key in enumerate(singles, start=1):
            began = time.monotonic()
            assert http.post(f"/api/errors/{key}/retry").status_code == 202
            wait_until(lambda n=number: sent(site, other) == n, 30, "it overtakes")
            took.append(time.monotonic() - began)
    left = MANY - sent(site, site.shop.orders)

    told = {"single p50": sorted(took)[SINGLES // 2], "most": max(took), "still due": left}
    print(told)  # noqa: T201 - the figures of the run
    assert left > 0
    assert max(took) <= 2.0
    wait_until(lambda: sent(site, site.shop.orders) == MANY, DEADLINE, "all are sent")


@pytest.mark.alone
@pytest.mark.parametrize("kind", [CLASSIC])
def test_a_bulk_has_its_share_while_much_is_due(site: Site, db: Database, other: str) -> None:
    store(site, db, BULK, other)
    site.host.start_ready()
    alone = measure_bulk(site, db, other, BULK)

    # When as much is asked for again while much is due
    due = store(site, db, MANY, site.shop.orders)
    store(site, db, BULK, other)
    schedule(db, due)
    wait_until(lambda: sent(site, site.shop.orders) > 0, DEADLINE, "some are sent")
    before = sent(site, site.shop.orders)
    beside = measure_bulk(site, db, other, 2 * BULK)
    meanwhile = sent(site, site.shop.orders) - before

    # Then it has a good part of what is sent meanwhile
    share = BULK / (BULK + meanwhile)
    told = {"alone, a second": round(alone), "beside": round(beside), "share": round(share, 2)}
    print({**told, "due sent meanwhile": meanwhile})  # noqa: T201 - the figures of the run
    assert meanwhile > 0
    assert share >= 0.3
    wait_until(lambda: sent(site, site.shop.orders) == MANY, DEADLINE, "all are sent")
    counts = "SELECT total, forwarded FROM retry_operations WHERE retry_type = 'by_policy'"
    wait_until(lambda: site.query(counts) == [(MANY, MANY)], 30, "all are counted")


def measure_bulk(site: Site, db: Database, queue: str, there: int) -> float:
    """Let a bulk be sent until so many are there; return how many messages a second it had."""
    request = RetryRequest(
        retry_type=RetryType.BY_QUEUE_ADDRESS,
        selection=Selection(queue=queue),
        originator="a test",
        requested_by="ada",
    )
    began = time.monotonic()
    create_operation(db, request)
    wait_until(lambda: sent(site, queue) == there, DEADLINE, "it is sent")
    return BULK / (time.monotonic() - began)
