"""Figure a once more: two processes take messages off one error queue, beside one."""

from collections.abc import Iterator
from functools import partial
from math import isnan, nan
from time import perf_counter

from tests.benchmarks.options import BODIES, Options
from tests.benchmarks.place import Place
from tests.benchmarks.results import Row
from tests.benchmarks.site import opened_site, wait_alive
from tests.benchmarks.targets import TARGET_BODY, TWO_INGESTING
from tests.support.service import Service


def measure_two_ingesting(options: Options, place: Place) -> Iterator[Row]:
    """Measure with the first kind of queues."""
    kind = options.queues[0]
    one, two = (_ingest(options, place, kind, processes) for processes in (1, 2))
    if isnan(one) or isnan(two):
        return
    yield Row(
        figure="a",
        what="ingestion by two processes",
        queues=kind,
        body=TARGET_BODY,
        value=two,
        unit="/s",
        rival="one process",
        rival_value=one,
        target=TWO_INGESTING,
    )


def _ingest(options: Options, place: Place, kind: str, processes: int) -> float:
    """Return messages per second from the moment on at which all processes are at work."""
    count = options.messages
    with opened_site(place, kind) as site:
        site.queues.fill(site.error, site.orders, count, BODIES[TARGET_BODY])
        services = [site.start("ingestion") for _ in range(processes)]
        for service in services:
            wait_alive(service, partial(_works, service), count, "waiting to be ingested")
        begin, before = perf_counter(), site.taken_off()
        site.wait_ingested(services[0], count)
        return (count - before) / (perf_counter() - begin) if before < count else nan


def _works(service: Service) -> bool:
    return "ingestion.started" in service.names()
