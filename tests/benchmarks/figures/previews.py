"""Figure k, continued: lists by a condition, previews, and a request for everything."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from time import perf_counter
from typing import Any

import httpx

from retrier.store.engine.database import Database
from retrier.store.recording import record_received
from tests.benchmarks.results import Row
from tests.benchmarks.site import Site
from tests.benchmarks.targets import ASKING_P95, INGESTION_STOPS, LIST_P95, PREVIEW_P95
from tests.support.databases import open_database
from tests.support.factories import failure

TRIES = 20
ASKED = 5
SHARE = 0.3
"""A preview is of so many of all messages."""
AT = (
    "SELECT to_char(percentile_disc(%(part)s) WITHIN GROUP (ORDER BY last_failure) "
    "AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.USZ') FROM failed_messages"
)


def measure_previews(site: Site, http: httpx.Client, many: int) -> Iterator[Row]:
    """Narrow a list, look ahead, and ask for everything while failures are stored."""
    last = _time_at(site, 1 - SHARE)
    yield from _measure_lists(http, last)
    some = {"selection": {"failed_from": last}}
    for what, body in (
        (f"preview of {int(many * SHARE):,} of {many:,}", some),
        (f"preview of all {many:,}", {"selection": {"all": True}}),
        ("preview of a queue", {"selection": {"queue": site.orders}}),
        ("preview with a limit of 500", {**some, "limit": 500}),
    ):
        seconds = _tries(TRIES, lambda: _post(http, "operations/preview", body))  # noqa: B023 - called at once
        yield _row(f"{what}: p95", seconds, PREVIEW_P95)
    yield from _measure_asking(site, http, many)


def _measure_lists(http: httpx.Client, last: str) -> Iterator[Row]:
    lists: Mapping[str, Mapping[str, str]] = {
        "by a time and a status": {"failed_from": last, "status": "unresolved"},
        "by attempts": {"attempts_at_least": "1"},
        "by a text that few have": {"text": "no such text"},
        "by a text that all have": {"text": "shop"},
    }
    for what, params in lists.items():
        seconds = _tries(TRIES, lambda: _get(http, params))  # noqa: B023 - called at once
        yield _row(f"first page {what}: p95", seconds, LIST_P95)


def _measure_asking(site: Site, http: httpx.Client, many: int) -> Iterator[Row]:
    db = open_database(site.database_url)
    with _storing(db) as stops:
        seconds = _tries(ASKED, lambda: _post(http, "operations", {"selection": {"all": True}}))
    db.dispose()
    yield _row(f"POST operations over all {many:,}: p95", seconds, ASKING_P95)
    yield Row(
        figure="k",
        what="longest time to store a failure meanwhile",
        value=1000 * max(stops),
        unit="ms",
        target=INGESTION_STOPS,
    )


@contextmanager
def _storing(db: Database) -> Iterator[list[float]]:
    """Store one failure after the other; give how long each took."""
    stops: list[float] = []
    ended = threading.Event()

    def run() -> None:
        while not ended.is_set():
            stops.append(_time(lambda: record_received(db, [failure()], instance="benchmark")))

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield stops
    finally:
        ended.set()
        thread.join()


def _time_at(site: Site, part: float) -> str:
    row = site.conn.execute(AT, {"part": part}).fetchone()
    return str(row[0]) if row else ""


def _row(what: str, seconds: list[float], target: Any) -> Row:
    value = 1000 * seconds[-1 - len(seconds) // 20]
    return Row(figure="k", what=what, value=value, unit="ms", target=target)


def _tries(times: int, act: Callable[[], object]) -> list[float]:
    return sorted(_time(act) for _ in range(times))


def _get(http: httpx.Client, params: Mapping[str, str]) -> None:
    http.get("/api/errors", params=dict(params)).raise_for_status()


def _post(http: httpx.Client, path: str, body: object) -> None:
    http.post(f"/api/{path}", json=body, timeout=60).raise_for_status()


def _time(act: Callable[[], object]) -> float:
    begin = perf_counter()
    act()
    return perf_counter() - begin
