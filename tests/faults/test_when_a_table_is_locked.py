"""Somebody locks a table while there is work, and many ask for lists."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event
from time import monotonic

import httpx
import psycopg
import pytest

from tests.faults.conftest import Begin
from tests.faults.work import check
from tests.journeys.conftest import Site
from tests.support.plain_http import client_at
from tests.support.servers import psycopg_url

pytestmark = [pytest.mark.faults, pytest.mark.rabbitmq, pytest.mark.postgres]

READERS = 60
LOCKED = 12
AT_ONCE = 8.0
"""Seconds in which health and metrics are answered; a scrape waits 2 s for the database, twice."""
UNTIL_TOLD = 20.0
LOCK = "LOCK TABLE failed_messages IN ACCESS EXCLUSIVE MODE"
ASKED = [
    ("GET", "/health"),
    ("GET", "/health/ready"),
    ("GET", "/metrics"),
    ("DELETE", "/api/redirects/none"),
]


@contextmanager
def locked(database_url: str) -> Iterator[None]:
    """Keep everybody from the table for a while."""
    with psycopg.connect(psycopg_url(database_url)) as other:
        other.execute(LOCK)
        yield
        other.rollback()


@contextmanager
def many_readers(base: httpx.URL) -> Iterator[set[int]]:
    """Ask for lists all the time; give the statuses of the answers."""
    statuses: set[int] = set()
    stop = Event()

    def read() -> None:
        with client_at(base, timeout=UNTIL_TOLD) as http:
            while not stop.is_set():
                answer = http.get("/api/errors", params={"per_page": 1})
                statuses.add(answer.status_code)
                stop.wait(float(answer.headers.get("Retry-After", 0)))

    with ThreadPoolExecutor(READERS) as readers:
        reading = [readers.submit(read) for _ in range(READERS)]
        try:
            yield statuses
        finally:
            stop.set()
    for each in reading:
        each.result()


def test_lists_that_hang_keep_nothing_else_waiting(
    site: Site, begin: Begin, database_url: str
) -> None:
    work = begin(site)
    work.wait_for("forwarding")

    with work.fault(), locked(database_url), work.service.http as http:
        with many_readers(http.base_url) as statuses:
            end = monotonic() + LOCKED
            while monotonic() < end:
                for method, path in ASKED:
                    answer = http.request(method, path, timeout=AT_ONCE)
                    assert answer.status_code in (200, 204), path
        assert statuses == {503}

    work.must_finish()
    check(work, in_doubt=0)
