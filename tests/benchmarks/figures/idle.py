"""Figure h: what a service costs that has nothing to do."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from tests.benchmarks.options import Options
from tests.benchmarks.place import Place
from tests.benchmarks.processes import cpu_seconds
from tests.benchmarks.results import Row
from tests.benchmarks.site import opened_site
from tests.benchmarks.targets import IDLE
from tests.support.service import Host, Service
from tests.support.waiting import let_pass

SETTLING = 3.0
"""Seconds after the start that are not counted."""


def measure_idle(options: Options, place: Place) -> Iterator[Row]:
    """Measure with servers, and with the embedded broker and SQLite."""
    servers, embedded = IDLE
    with opened_site(place, options.queues[0]) as site:
        yield _make_row(servers, _watch(site.start(), options))
    with TemporaryDirectory(prefix="retrier-bench-") as folder:
        host = Host(Path(folder), _embedded(folder))
        try:
            yield _make_row(embedded, _watch(host.start(), options))
        finally:
            for service in host.services:
                service.kill()


def _embedded(folder: str) -> dict[str, object]:
    return {
        "broker": {"url": f"embedded:///{folder}/broker.db"},
        "database": {"url": f"sqlite:///{folder}/retrier.db"},
        "api": {"port": 0},
    }


def _watch(service: Service, options: Options) -> float:
    """Return the share of one core, in percent."""
    service.wait_ready()
    let_pass(SETTLING)
    begin, before = perf_counter(), cpu_seconds(service.pid)
    let_pass(options.idle_seconds)
    return 100 * (cpu_seconds(service.pid) - before) / (perf_counter() - begin)


def _make_row(what: str, percent: float) -> Row:
    return Row(
        figure="h",
        what=f"idle: {what}",
        value=percent,
        unit="% of a core",
        target=IDLE[what],
    )
