"""Figure l: what retention deletes in a second, and what ingestion keeps of its rate beside it."""

from collections.abc import Iterator
from statistics import median
from time import perf_counter

from tests.benchmarks.filling import Filling, fill
from tests.benchmarks.options import BODIES, Options
from tests.benchmarks.place import Place
from tests.benchmarks.results import Row
from tests.benchmarks.site import Site, opened_site, patience, wait_alive
from tests.benchmarks.targets import RETENTION, RETENTION_BESIDE, TARGET_BODY
from tests.support.waiting import wait_until

TURNS = 3
OLD = "UPDATE failed_messages SET status = 'archived', last_modified = '2020-01-01'"
DELETED = "SELECT coalesce(sum(count), 0) FROM ledger WHERE entry = 'deleted'"


def measure_retention(options: Options, place: Place) -> Iterator[Row]:
    """Measure with the first kind of queues: alone, then beside ingestion and without, in turns."""
    yield Row(
        figure="l",
        what="deleted by retention, nothing else to do",
        queues=options.queues[0],
        body=TARGET_BODY,
        value=_delete(options, place),
        unit="/s",
        target=RETENTION,
    )
    beside, alone = [], []
    for _ in range(TURNS):
        beside.append(_ingest(options, place, old=4 * options.messages))
        alone.append(_ingest(options, place, old=0))
    yield Row(
        figure="l",
        what="ingestion beside retention",
        queues=options.queues[0],
        body=TARGET_BODY,
        value=median(beside),
        unit="/s",
        rival="without retention",
        rival_value=median(alone),
        target=RETENTION_BESIDE,
    )


def _delete(options: Options, place: Place) -> float:
    with opened_site(place, options.queues[0]) as site:
        _fill(site, options.messages)
        site.start("processor")
        wait_until(lambda: site.count(DELETED) > 0, patience(options.messages), "it deletes")
        begin, before = perf_counter(), site.count(DELETED)
        wait_until(
            lambda: site.count(DELETED) >= options.messages, patience(options.messages), "all"
        )
        return (options.messages - before) / (perf_counter() - begin)


def _ingest(options: Options, place: Place, *, old: int) -> float:
    """Return messages ingested in a second, beside a processor that deletes so many old ones."""
    count = options.messages
    with opened_site(place, options.queues[0]) as site:
        if old:
            _fill(site, old)
        site.queues.fill(site.error, site.orders, count, BODIES[TARGET_BODY])
        first = site.taken_off()
        site.start("processor")
        if old:
            wait_until(lambda: site.count(DELETED) > 0, patience(count), "it deletes")
        service = site.start("ingestion")
        wait_alive(service, lambda: "ingestion.started" in service.names(), count, "waiting")
        begin, before = perf_counter(), site.taken_off()
        wait_alive(service, lambda: site.taken_off() >= first + count, count, "ingested")
        return (first + count - before) / (perf_counter() - begin)


def _fill(site: Site, count: int) -> None:
    """Store messages that were archived long ago."""
    size = BODIES[TARGET_BODY]
    filling = Filling(count=count, queue=site.orders, error_queue=site.error, body_size=size)
    fill(site.database_url, site.conn, filling)
    site.conn.execute(OLD)
    site.conn.execute("VACUUM ANALYZE")
