"""Figures a, c, d, e: ingestion, staging, forwarding, and all of a bulk retry, beside rivals.

Staging and forwarding are timed from inside: by what the service logs at the end of each stage
of each batch while it retries everything.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from math import isnan, nan
from time import perf_counter

from tests.benchmarks.options import BODIES, Options
from tests.benchmarks.place import Place
from tests.benchmarks.processes import CpuClock, watched_memory
from tests.benchmarks.results import Row, Target
from tests.benchmarks.rivals.measuring import WINDOWS, Rivals, measure_rivals
from tests.benchmarks.site import Site, opened_site, patience, retry
from tests.benchmarks.targets import (
    END_TO_END,
    END_TO_END_SHOVEL,
    FORWARDING,
    INGESTION,
    PIPELINED,
    SHOVEL,
    TARGET_BODY,
    TWO_PASSES,
)
from tests.support.service import Service

FIGURES = frozenset("acde")
SERVICE = "the service"
STAGES = {"batch.marked": "marking", "batch.staged": "staging", "batch.forwarded": "forwarding"}
"""What the service tells at the end of each stage of a batch."""


@dataclass(slots=True)
class Journey:
    """What Retrier did: messages per second, MiB at most, CPU seconds per 1000 messages."""

    ingestion: float = nan
    end_to_end: float = nan
    staging: float = nan
    forwarding: float = nan
    memory: float = nan
    ingestion_cpu: Mapping[str, float] = field(default_factory=dict)
    retry_cpu: Mapping[str, float] = field(default_factory=dict)


def measure_journeys(options: Options, place: Place) -> Iterator[Row]:
    """Measure every kind of queue with every size of body."""
    for kind in options.queues:
        for body in options.bodies:
            rivals = measure_rivals(options, place, kind, body)
            journey = travel(options, place, kind, body)
            rows = make_rows(kind, body, journey, rivals)
            yield from (row for row in rows if row.figure in options.figures)


def travel(options: Options, place: Place, kind: str, body: str) -> Journey:
    """Let a service ingest messages off a full error queue, then retry all of them."""
    count, journey = options.count(body), Journey()
    with opened_site(place, kind) as site:
        site.queues.fill(site.error, site.orders, count, BODIES[body])
        service = site.start()
        with watched_memory(service.pid) as watch:
            pids = {SERVICE: service.pid} | ({"RabbitMQ": place.node.pid} if place.node else {})
            _ingest(site, service, count, journey, pids)
            _retry_all(site, service, count, journey, pids)
            journey.memory = watch.reset()
        site.verify()
    return journey


def _ingest(
    site: Site, service: Service, count: int, journey: Journey, pids: Mapping[str, int]
) -> None:
    # From its first message on: until then it was starting.
    site.wait_ingested(service, 1)
    begin, before, cpu = perf_counter(), site.taken_off(), CpuClock(pids)
    site.wait_ingested(service, count)
    rest = count - before
    if rest:
        journey.ingestion = rest / (perf_counter() - begin)
        journey.ingestion_cpu = cpu.per_thousand(rest)


def _retry_all(
    site: Site, service: Service, count: int, journey: Journey, pids: Mapping[str, int]
) -> None:
    cpu = CpuClock(pids)
    with service.http as http:
        begin = perf_counter()
        operation = retry(http, "/api/errors/retry/all")
        site.queues.wait_depth(site.orders, count, patience(count))
        journey.end_to_end = count / (perf_counter() - begin)
        journey.retry_cpu = cpu.per_thousand(count)
        done = site.wait_completed(http, operation, count)
    if done["forwarded"] != count:
        raise RuntimeError(f"not everything was forwarded: {done}")
    spent = sum_stages(service)
    journey.staging = count / spent.get("staging", nan)
    journey.forwarding = count / spent.get("forwarding", nan)


def sum_stages(service: Service) -> dict[str, float]:
    """Return the seconds each stage took, over all batches."""
    told = [
        (line["event"], datetime.fromisoformat(line["timestamp"]))
        for line in list(service.logged)
        if line.get("event") in STAGES
    ]
    spent: dict[str, float] = {}
    for (_, before), (event, at) in pairwise(told):
        stage = STAGES[event]
        spent[stage] = spent.get(stage, 0) + (at - before).total_seconds()
    return spent


def make_rows(kind: str, body: str, journey: Journey, rivals: Rivals) -> Iterator[Row]:
    """Set each figure beside each rival; where a figure could not be had there is no line."""
    raw = {PIPELINED.format(window=window): FORWARDING for window in WINDOWS}
    passes = {name: {TWO_PASSES: rate} for name, rate in rivals.two_passes.items()}
    end_to_end = {**END_TO_END, SHOVEL: END_TO_END_SHOVEL[kind]}
    movers = rivals.movers
    for figure, what, value, others, targets in (
        ("a", "ingestion", journey.ingestion, movers | rivals.storers, INGESTION),
        ("c", "staging", journey.staging, movers | passes["staging"], {}),
        ("d", "forwarding", journey.forwarding, movers | passes["forwarding"], raw),
        ("e", "end to end", journey.end_to_end, movers | passes["both"], end_to_end),
    ):
        line = Row(figure=figure, what=what, queues=kind, body=body, value=value, unit="/s")
        yield from _beside(line, others, targets if body == TARGET_BODY else {})
    yield from _make_cpu_rows(kind, body, journey, rivals)


def _make_cpu_rows(kind: str, body: str, journey: Journey, rivals: Rivals) -> Iterator[Row]:
    for figure, stage, used in (
        ("a", "ingestion", journey.ingestion_cpu),
        ("e", "end to end", journey.retry_cpu),
    ):
        for name, seconds in used.items():
            what = f"{stage}: CPU for 1000, {name}"
            line = Row(figure=figure, what=what, queues=kind, body=body, value=seconds, unit="s")
            beside = rivals.cpu if name == SERVICE else {}
            yield from (line.beside(*rival, None) for rival in beside.items())
            if not beside:
                yield line


def _beside(line: Row, others: Mapping[str, float], targets: Mapping[str, Target]) -> Iterator[Row]:
    for rival, rate in others.items():
        if not isnan(line.value) and not isnan(rate):
            yield line.beside(rival, rate, targets.get(rival))
