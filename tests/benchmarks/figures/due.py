"""Figure o: many that come due at once, beside a bulk; what single retries and a bulk keep."""

from collections.abc import Iterator
from time import perf_counter

import httpx

from tests.benchmarks.figures.latency import show_latencies, time_one
from tests.benchmarks.filling import Filling, fill
from tests.benchmarks.options import BODIES, Options
from tests.benchmarks.place import Place
from tests.benchmarks.raw_line import RawLine
from tests.benchmarks.results import Row, Target
from tests.benchmarks.site import Site, opened_site, patience, retry
from tests.benchmarks.targets import BULK_BESIDE_DUE, DUE, SINGLE_BUSY_P99, TARGET_BODY
from tests.support.databases import open_database
from tests.support.scheduling import schedule
from tests.support.waiting import wait_until

UNLIMITED = 100_000
"""Messages a second that the standing operation may send: 1,000 if nothing is said."""
LIMITS = (("p50", 0.5, None), ("p99", 0.99, SINGLE_BUSY_P99))


def measure_due(options: Options, place: Place) -> Iterator[Row]:
    """Measure on each kind of queues: alone, then beside single retries, then beside a bulk."""
    for kind in options.queues:
        with opened_site(place, kind) as site:
            queues = [_fill(site, options.messages) for _ in range(5)]
            singles = _fill(site, options.singles)
            site.host.configure("policies", per_second=UNLIMITED)
            service = site.start()
            service.wait_ready()
            with service.http as http:
                yield from _measure_rates(options, site, http, queues)
                yield from _measure_singles(options, site, http, queues[-1], singles)
            site.verify()


def _measure_rates(
    options: Options, site: Site, http: httpx.Client, queues: list[str]
) -> Iterator[Row]:
    count, kind = options.messages, site.queues.kind
    bulk, due, due_beside, bulk_beside, _ = queues
    retry(http, f"/api/errors/queues/{bulk}/retry")
    rate = _take_rate(site, bulk, count)

    _schedule(site, due)
    yield _beside(kind, f"{count:,} due at once", _take_rate(site, due, count), rate, DUE)

    _schedule(site, due_beside)
    wait_until(lambda: site.queues.depth(due_beside) > 0, patience(count), "they are sent")
    retry(http, f"/api/errors/queues/{bulk_beside}/retry")
    beside = _take_rate(site, bulk_beside, count)
    yield _beside(kind, f"a bulk while {count:,} are due", beside, rate, BULK_BESIDE_DUE)
    site.queues.wait_depth(due_beside, count, patience(count))


def _beside(kind: str, what: str, value: float, bulk: float, target: Target) -> Row:
    line = Row(figure="o", what=what, queues=kind, body=TARGET_BODY, value=value, unit="/s")
    return line.beside("a bulk alone", bulk, target)


def _take_rate(site: Site, queue: str, count: int) -> float:
    """Return messages a second, from the first ones on the queue to the last."""
    wait_until(lambda: site.queues.depth(queue) > 0, patience(count), "the first ones are sent")
    begin, before = perf_counter(), site.queues.depth(queue)
    site.queues.wait_depth(queue, count, patience(count))
    return (count - before) / (perf_counter() - begin)


def _measure_singles(
    options: Options, site: Site, http: httpx.Client, due: str, singles: str
) -> Iterator[Row]:
    line = RawLine(site.queues.url)
    line.consume(singles, 0)
    _schedule(site, due)
    wait_until(lambda: site.queues.depth(due) > 0, patience(0), "they are sent")
    took = [
        time_one(http, line, each)
        for each in _list_ids(site, singles)
        if site.queues.depth(due) < options.messages
    ]
    line.close()
    site.queues.wait_depth(due, options.messages, patience(options.messages))
    what = f"single retry, while {options.messages:,} are due ({len(took)} tries)"
    yield from show_latencies("o", site.queues.kind, what, took, LIMITS)


def _schedule(site: Site, queue: str) -> None:
    """Let all that failed on a queue be due now."""
    db = open_database(site.database_url)
    schedule(db, _list_ids(site, queue))
    db.dispose()


def _list_ids(site: Site, queue: str) -> list[str]:
    found = site.conn.execute(
        "SELECT unique_message_id FROM v_failed_messages WHERE queue = %s", (queue,)
    )
    return [str(row[0]) for row in found.fetchall()]


def _fill(site: Site, count: int) -> str:
    """Store so many messages that failed on a queue of their own; return its name."""
    queue, size = site.queues.declare("orders"), BODIES[TARGET_BODY]
    filling = Filling(count=count, queue=queue, error_queue=site.error, body_size=size)
    fill(site.database_url, site.conn, filling)
    return queue
