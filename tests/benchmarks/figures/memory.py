"""Figure g: memory while very many messages are ingested and retried, and with large bodies."""

from collections.abc import Iterator

from tests.benchmarks.figures.journey import travel
from tests.benchmarks.options import Options
from tests.benchmarks.place import Place
from tests.benchmarks.processes import MemoryWatch, watched_memory
from tests.benchmarks.results import Row
from tests.benchmarks.site import Site, opened_site, patience, retry
from tests.benchmarks.targets import LARGE_BODY, MEMORY_GROWTH, MEMORY_LARGE_BODIES
from tests.support.service import Service

FIRST = 10_000
"""After so many the service is expected to have its size."""
BODY = 200
CHUNK = 20_000
"""So many at most lie on the error queue, so that the broker's disk does not fill."""


def measure_memory(options: Options, place: Place) -> Iterator[Row]:
    """Measure with the first kind of queues."""
    kind = options.queues[0]
    large = travel(options, place, kind, LARGE_BODY)
    yield Row(
        figure="g",
        what=f"memory at most, {options.count(LARGE_BODY):,} messages",
        queues=kind,
        body=LARGE_BODY,
        value=large.memory,
        unit="MiB",
        target=MEMORY_LARGE_BODIES,
    )
    first = min(FIRST, options.many // 2)
    with opened_site(place, kind) as site:
        service = site.start()
        service.wait_ready()
        with watched_memory(service.pid) as watch:
            before = _work(site, service, watch, first, 0)
            after = _work(site, service, watch, options.many - first, first)
    yield Row(
        figure="g",
        what=f"memory grown over {options.many:,}, after the first {first:,}",
        queues=kind,
        body=f"{BODY}B",
        value=max(0.0, after - before),
        unit="MiB",
        target=MEMORY_GROWTH,
    )
    yield Row(
        figure="g",
        what=f"memory at most, {options.many:,} messages",
        queues=kind,
        body=f"{BODY}B",
        value=after,
        unit="MiB",
    )


def _work(site: Site, service: Service, watch: MemoryWatch, count: int, before: int) -> float:
    """Have so many ingested and retried; return the most memory seen meanwhile, in MiB."""
    for start in range(0, count, CHUNK):
        more = min(CHUNK, count - start)
        site.queues.fill(site.error, site.orders, more, BODY)
        site.wait_ingested(service, before + start + more)
    with service.http as http:
        operation = retry(http, "/api/errors/retry/all")
        site.queues.wait_depth(site.orders, count, patience(count))
        site.wait_completed(http, operation, count)
    site.queues.purge(site.orders)
    return watch.reset()
