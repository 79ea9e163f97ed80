"""Figure k: lists and pages of a million messages on 50 queues, and the size of the database."""

from collections.abc import Callable, Iterator, Mapping
from time import perf_counter
from urllib.parse import quote

import httpx

from retrier.domain.classifiers import CLASSIFIERS
from retrier.store.groups import count_groups
from tests.benchmarks.figures.previews import measure_previews
from tests.benchmarks.filling import Filling, fill
from tests.benchmarks.options import Options
from tests.benchmarks.place import Place
from tests.benchmarks.results import Row, Target
from tests.benchmarks.site import Site, opened_site, patience
from tests.benchmarks.targets import (
    BYTES_A_MESSAGE,
    DEEP_PAGE_P95,
    GROUPS,
    LIST_P95,
    MESSAGE_PAGE_P95,
    OVERVIEW_P95,
    PAGE_P95,
)
from tests.support.databases import open_database

BODY = 2048
QUEUES = 50
TRIES = 40
GROUP_TRIES = 5
DEEP_PAGE = 10_000
PER_PAGE = 50
SORTS = ("time_sent", "time_of_failure", "modified", "status", "id", "message_id", "message_type")


def measure_lists(options: Options, place: Place) -> Iterator[Row]:
    """Fill a database, ask for its lists again and again, and count its bytes."""
    with opened_site(place, "quorum") as site:
        filling = Filling(
            count=options.many,
            queue=site.orders,
            error_queue=site.error,
            body_size=BODY,
            others=tuple(f"{site.orders}.{number}" for number in range(1, QUEUES)),
        )
        fill(site.database_url, site.conn, filling)
        size = site.count("SELECT pg_database_size(current_database())") / options.many / 1000
        yield Row(
            figure="k",
            what="size of the database, a message",
            body="2KiB",
            value=size,
            unit="kB",
            target=BYTES_A_MESSAGE,
        )
        yield from _measure_groups(site, options.many)
        yield from _measure_asking(site, options.many)


def _measure_groups(site: Site, many: int) -> Iterator[Row]:
    db = open_database(site.database_url)
    seconds = [_time(lambda: count_groups(db, CLASSIFIERS[0])) for _ in range(GROUP_TRIES)]
    db.dispose()
    yield Row(
        figure="k",
        what=f"groups of {many:,}, fresh: p95",
        value=1000 * max(seconds),
        unit="ms",
        target=GROUPS,
    )


def _measure_asking(site: Site, many: int) -> Iterator[Row]:
    service = site.start("api")
    service.wait_ready(patience(0))
    with service.http as http:
        for what, (path, target) in _asked(site, many).items():
            seconds = sorted(_time(lambda: _get(http, path)) for _ in range(TRIES))  # noqa: B023 - called at once
            yield Row(
                figure="k",
                what=f"{what}: p95",
                value=1000 * seconds[int(0.95 * len(seconds)) - 1],
                unit="ms",
                target=target,
            )
        yield from measure_previews(site, http, many)


def _asked(site: Site, many: int) -> Mapping[str, tuple[str, Target | None]]:
    (found,) = site.conn.execute(
        "SELECT unique_message_id, message_id FROM failed_messages ORDER BY number LIMIT 1"
    ).fetchall()
    page = min(DEEP_PAGE, many // PER_PAGE)
    queue = quote(site.orders, safe="")
    asked: dict[str, tuple[str, Target | None]] = {
        f"first page of {many:,} by {sort}": (f"/api/errors?sort={sort}", LIST_P95)
        for sort in SORTS
    }
    return asked | {
        "first page, unresolved": ("/api/errors?status=unresolved", LIST_P95),
        "first page of a queue": (f"/api/errors?status=unresolved&queue={queue}", LIST_P95),
        "one message": (f"/api/errors/{found[0]}", LIST_P95),
        "one body, by message id": (f"/api/messages/{found[1]}/body", LIST_P95),
        f"page {page:,}": (f"/api/errors?page={page}&per_page={PER_PAGE}", DEEP_PAGE_P95),
        "groups over HTTP": ("/api/recoverability/groups", GROUPS),
        "the page: overview": ("/", OVERVIEW_P95),
        "the page: overview, 30 days": ("/?span=month", OVERVIEW_P95),
        "the page: groups": ("/groups", PAGE_P95),
        "the page: messages": ("/messages", PAGE_P95),
        "the page: messages of a queue": (f"/messages?queue={queue}", PAGE_P95),
        "the page: search for an id": (f"/search?q={found[1]}", PAGE_P95),
        "the page: search for a queue": (f"/search?q={queue}", PAGE_P95),
        "the page: event log": ("/events", PAGE_P95),
        "the page: one message": (f"/messages/{found[0]}", MESSAGE_PAGE_P95),
    }


def _get(http: httpx.Client, path: str) -> None:
    answer = http.get(path)
    if not answer.is_redirect:
        answer.raise_for_status()


def _time(act: Callable[[], object]) -> float:
    begin = perf_counter()
    act()
    return perf_counter() - begin
