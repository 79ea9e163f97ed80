"""Figure f: how long one retry takes, from the request to its message at the end of its queue."""

from collections.abc import Iterator, Sequence
from math import ceil
from time import perf_counter

import httpx

from tests.benchmarks.filling import Filling, fill
from tests.benchmarks.options import BODIES, Options
from tests.benchmarks.place import Place
from tests.benchmarks.raw_line import RawLine
from tests.benchmarks.results import Row, Target
from tests.benchmarks.site import Site, ask, opened_site, patience, retry
from tests.benchmarks.targets import SINGLE_BUSY_P99, SINGLE_IDLE_P50, SINGLE_IDLE_P99
from tests.support.waiting import let_pass, wait_until

BODY = BODIES["2KiB"]
PAUSE = 0.2
"""Seconds between two requests: the service has come to rest again."""
IDLE = (("p50", 0.5, SINGLE_IDLE_P50), ("p99", 0.99, SINGLE_IDLE_P99))
BUSY = (("p50", 0.5, None), ("p99", 0.99, SINGLE_BUSY_P99))


def measure_latency(options: Options, place: Place) -> Iterator[Row]:
    """Measure single retries on an idle service, then while it is busy with a bulk."""
    for kind in options.queues:
        with opened_site(place, kind) as site:
            yield from _measure(options, site, kind)


def _measure(options: Options, site: Site, kind: str) -> Iterator[Row]:
    singles = site.queues.declare("singles")
    for queue, count in ((site.orders, options.messages), (singles, 2 * options.singles)):
        filling = Filling(count=count, queue=queue, error_queue=site.error, body_size=BODY)
        fill(site.database_url, site.conn, filling)
    found = site.conn.execute(
        "SELECT unique_message_id FROM v_failed_messages WHERE queue = %s", (singles,)
    )
    ids = [str(row[0]) for row in found.fetchall()]
    service = site.start()
    service.wait_ready()
    line = RawLine(site.queues.url)
    line.consume(singles, 0)
    with service.http as http:
        idle = [time_one(http, line, each) for each in ids[: options.singles]]
        yield from show_latencies("f", kind, "single retry, idle service", idle, IDLE)
        bulk = retry(http, f"/api/errors/queues/{site.orders}/retry")
        wait_until(lambda: site.queues.depth(site.orders) > 0, patience(0), "the bulk has begun")
        busy = list(_time_while(http, line, ids[options.singles :], bulk))
    line.close()
    what = f"single retry, busy with {options.messages:,} ({len(busy)} tries)"
    yield from show_latencies("f", kind, what, busy, BUSY)


def _time_while(
    http: httpx.Client, line: RawLine, ids: Sequence[str], bulk: str
) -> Iterator[float]:
    for each in ids:
        if ask(http, bulk)["state"] == "completed":
            return
        yield time_one(http, line, each)


def time_one(http: httpx.Client, line: RawLine, unique_id: str) -> float:
    """Return the seconds until a message is at the end of its queue, after a pause."""
    let_pass(PAUSE)
    begin = perf_counter()
    retry(http, f"/api/errors/{unique_id}/retry")
    while not line.inbox:
        line.read()
    seconds = perf_counter() - begin
    line.ack(line.inbox.popleft().tag)
    return seconds


def show_latencies(
    figure: str,
    kind: str,
    what: str,
    seconds: Sequence[float],
    wanted: Sequence[tuple[str, float, Target | None]],
) -> Iterator[Row]:
    """Make a row of each part (0 to 1) that is wanted of these seconds."""
    for name, part, target in wanted if seconds else ():
        slowest = sorted(seconds)[ceil(part * len(seconds)) - 1]
        yield Row(
            figure=figure,
            what=f"{what}: {name}",
            queues=kind,
            body="2KiB",
            value=1000 * slowest,
            unit="ms",
            target=target,
        )
