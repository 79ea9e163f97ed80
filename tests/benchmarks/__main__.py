"""The benchmark: `python -m tests.benchmarks --help`."""

import signal
import sys
from collections.abc import Mapping, Sequence

import pytest
from rich.console import Console

from tests.benchmarks.figures import measure_figures
from tests.benchmarks.machine import describe_machine
from tests.benchmarks.options import Options, read_options
from tests.benchmarks.place import opened_place
from tests.benchmarks.report import print_row, print_table, write_json, write_markdown
from tests.benchmarks.results import Row, sum_up

WIDTH = 150
"""Characters of the table where there is no terminal that has a width."""
REACHED, MISSED, NO_SERVERS, INTERRUPTED = 0, 1, 2, 130


def main(words: Sequence[str] | None = None) -> int:
    """Measure, show, write down. See the exit codes in docs/performance.md."""
    options = read_options(words)
    progress = Console(stderr=True, soft_wrap=True)
    runs: list[list[Row]] = []
    machine: dict[str, object] = {}
    ending = REACHED
    try:
        _measure(options, progress, runs, machine)
    except KeyboardInterrupt:
        progress.print("Interrupted: all that was made is removed. This is what is known:")
        ending = INTERRUPTED
    except pytest.skip.Exception as missing:
        progress.print(f"Cannot measure: {missing}")
        return NO_SERVERS
    return max(ending, _report(options, runs, machine))


def _measure(
    options: Options, progress: Console, runs: list[list[Row]], machine: dict[str, object]
) -> None:
    with opened_place(options.amqp_url, options.postgres_url) as place:
        machine |= describe_machine(place)
        for _ in range(options.runs):
            runs.append([])
            for row in measure_figures(options, place, progress.print):
                runs[-1].append(row)
                print_row(row, progress)


def _report(options: Options, runs: Sequence[Sequence[Row]], machine: Mapping[str, object]) -> int:
    rows = list(sum_up(row for run in runs for row in run))
    shown = Console()
    print_table(rows, shown if shown.is_terminal else Console(width=WIDTH))
    if options.json:
        facts = {"machine": machine, "options": options.as_json()}
        write_json(options.json, rows, runs, facts)
    if options.markdown:
        write_markdown(options.markdown, rows, machine)
    return MISSED if any(row.reached is False for row in rows) else REACHED


if __name__ == "__main__":
    # It ends like Ctrl-C: whatever was made for the run is removed.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
