"""Figure j: one process for everything, beside one for each role, while all of them have work."""

from collections.abc import Iterator, Sequence
from time import perf_counter

from tests.benchmarks.filling import Filling, fill
from tests.benchmarks.options import BODIES, Options
from tests.benchmarks.place import Place
from tests.benchmarks.results import Row
from tests.benchmarks.site import Site, ask_for_all, opened_site, wait_alive
from tests.benchmarks.targets import TARGET_BODY
from tests.support.databases import open_database

ROLES = ("api", "processor", "ingestion")
COMPLETED = "SELECT count(*) FROM retry_operations WHERE state = 'completed'"


def measure_roles(options: Options, place: Place) -> Iterator[Row]:
    """Measure how long it takes to ingest and to retry as many messages as there are already."""
    for kind in options.queues:
        together, apart = (_work(options, place, kind, roles) for roles in ((), ROLES))
        yield Row(
            figure="j",
            what="ingestion and retries at once, a process per role",
            queues=kind,
            body=TARGET_BODY,
            value=options.messages / apart,
            unit="/s",
            rival="one process",
            rival_value=options.messages / together,
        )


def _work(options: Options, place: Place, kind: str, roles: Sequence[str]) -> float:
    """Return the seconds from the start until all is ingested, and all there was is forwarded."""
    count = options.messages
    with opened_site(place, kind) as site:
        here = Filling(
            count=count, queue=site.orders, error_queue=site.error, body_size=BODIES[TARGET_BODY]
        )
        fill(site.database_url, site.conn, here)
        site.queues.fill(site.error, site.orders, count, BODIES[TARGET_BODY])
        # Before anything is ingested: what fails after the request is not part of it.
        db = open_database(site.database_url)
        ask_for_all(db)
        db.dispose()
        begin = perf_counter()
        services = [site.start(role) for role in roles] or [site.start()]
        for service in services:
            wait_alive(service, lambda: _is_done(site, count), 2 * count, "ingested or forwarded")
        return perf_counter() - begin


def _is_done(site: Site, count: int) -> bool:
    return site.taken_off() == 2 * count and bool(site.count(COMPLETED))
