"""Figure m: what other destinations keep of their rate while the breaker of one is open."""

from collections.abc import Iterator
from statistics import median
from time import perf_counter

from tests.benchmarks.filling import Filling, fill
from tests.benchmarks.options import BODIES, Options
from tests.benchmarks.place import Place
from tests.benchmarks.results import Row
from tests.benchmarks.site import opened_site, patience, retry
from tests.benchmarks.targets import BESIDE_BREAKER, TARGET_BODY

TURNS = 3
MOST = 10_000
BREAKERS = {"per": "destination", "window": "2m"}
"""The same settings in both turns: what is sent is counted, with and without an open breaker."""


def measure_breakers(options: Options, place: Place) -> Iterator[Row]:
    """Measure in turns with the first kind of queues: with as many messages held, and alone."""
    kind, count = options.queues[0], min(options.messages, MOST)
    beside, alone = [], []
    for _ in range(TURNS):
        beside.append(_send(place, kind, count, held=True))
        alone.append(_send(place, kind, count, held=False))
    yield Row(
        figure="m",
        what=f"sent to a queue while {count:,} of another one wait for their breaker",
        queues=kind,
        body=TARGET_BODY,
        value=median(beside),
        unit="/s",
        rival="no other messages, no breaker open",
        rival_value=median(alone),
        target=BESIDE_BREAKER,
    )


def _send(place: Place, kind: str, count: int, *, held: bool) -> float:
    """Return what goes in a second to a queue, from the request until the last one is there."""
    with opened_site(place, kind, breakers=BREAKERS) as site:
        away = site.queues.declare("away")
        filling = Filling(
            count=2 * count if held else count,
            queue=site.orders,
            others=(away,) if held else (),
            error_queue=site.error,
            body_size=BODIES[TARGET_BODY],
        )
        fill(site.database_url, site.conn, filling)
        service = site.start()
        service.wait_ready()
        with service.http as http:
            if held:
                http.post(f"/api/breakers/{away}/open", json={"for": "1h"}).raise_for_status()
            begin = perf_counter()
            retry(http, "/api/errors/retry/all")
            site.queues.wait_depth(site.orders, count, patience(count))
            seconds = perf_counter() - begin
        if sent := site.queues.depth(away):
            raise RuntimeError(f"{sent} messages were sent past an open breaker")
        site.verify()
    return count / seconds
