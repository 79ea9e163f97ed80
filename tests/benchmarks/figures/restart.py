"""Figure i: a service killed within a batch, with a million messages, comes back."""

from collections.abc import Iterator
from time import perf_counter

from retrier.events.processor import WindowSent
from tests.benchmarks.figures.marking import BODY, SHORT_TRACE
from tests.benchmarks.filling import Filling, fill
from tests.benchmarks.options import Options
from tests.benchmarks.place import Place
from tests.benchmarks.results import Row
from tests.benchmarks.site import Site, opened_site, patience, retry, wait_alive

BATCH = 1000


def measure_restart(options: Options, place: Place) -> Iterator[Row]:
    """Measure until it is ready, and until the half-forwarded batch is done."""
    for kind in options.queues:
        with opened_site(place, kind) as site:
            filling = Filling(
                count=options.many,
                queue=site.orders,
                error_queue=site.error,
                body_size=BODY,
                depth=SHORT_TRACE,
            )
            fill(site.database_url, site.conn, filling)
            _kill_within_batch(site)
            sent = site.queues.depth(site.orders)
            ready, done = _come_back(site)
        what = f"restart with {options.many:,} messages, {sent} of a batch of {BATCH} sent"
        for name, seconds in (("ready", ready), ("batch done", done)):
            yield Row(figure="i", what=f"{what}: {name}", queues=kind, value=seconds, unit="s")


def _kill_within_batch(site: Site) -> None:
    service = site.start(crash_at=WindowSent.name)
    service.wait_ready()
    with service.http as http:
        retry(http, "/api/errors/retry/all")
    service.wait_dead(patience(0))


def _come_back(site: Site) -> tuple[float, float]:
    """Return the seconds until it is ready and until the batch is done, from the start on."""
    begin = perf_counter()
    service = site.start()
    service.wait_ready(patience(0))
    ready = perf_counter() - begin
    wait_alive(service, lambda: "batch.forwarded" in service.names(), BATCH, "forwarded")
    return ready, perf_counter() - begin
