"""What is measured, figure by figure."""

from collections.abc import Callable, Iterator

from tests.benchmarks.figures import (
    breakers,
    due,
    idle,
    journey,
    latency,
    lists,
    many_causes,
    marking,
    memory,
    restart,
    retention,
    roles,
    streams,
    two_ingesting,
)
from tests.benchmarks.options import Options
from tests.benchmarks.place import Place
from tests.benchmarks.results import Row

MEASURES = (
    (journey.FIGURES, journey.measure_journeys),
    (frozenset("a"), two_ingesting.measure_two_ingesting),
    (frozenset("a"), many_causes.measure_many_causes),
    (frozenset("b"), marking.measure_marking),
    (frozenset("f"), latency.measure_latency),
    (frozenset("g"), memory.measure_memory),
    (frozenset("h"), idle.measure_idle),
    (frozenset("i"), restart.measure_restart),
    (frozenset("j"), roles.measure_roles),
    (frozenset("k"), lists.measure_lists),
    (frozenset("l"), retention.measure_retention),
    (frozenset("m"), breakers.measure_breakers),
    (frozenset("n"), streams.measure_streams),
    (frozenset("o"), due.measure_due),
)


def measure_figures(options: Options, place: Place, tell: Callable[[str], object]) -> Iterator[Row]:
    """Measure all that is wanted, one after the other."""
    for figures, measure in MEASURES:
        if figures & options.figures:
            tell(f"({', '.join(sorted(figures & options.figures))}) ...")
            yield from measure(options, place)
