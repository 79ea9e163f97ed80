"""The result for people, for programs and for the documentation."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.benchmarks.options import FIGURES
from tests.benchmarks.results import Row

COLUMNS = ("", "what", "queues", "body", "Retrier", "beside", "", "ratio", "target", "reached")
WHOLE_FROM = 100
"""From here on a value is shown without decimals."""
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"


def print_table(rows: Sequence[Row], console: Console) -> None:
    """Show every line."""
    table = Table(*COLUMNS, title="Retrier beside other ways to do the same")
    for row in rows:
        style = {True: "green", False: "red", None: None}[row.reached]
        table.add_row(*_cells(row), style=style)
    console.print(table)


def print_row(row: Row, console: Console) -> None:
    """Show one line as soon as it is known."""
    console.print("   ".join(cell for cell in _cells(row) if cell), highlight=False)


def write_json(
    path: Path, rows: Sequence[Row], runs: Sequence[Sequence[Row]], facts: Mapping[str, object]
) -> None:
    """Write the facts, the lines summed up, and those of every run."""
    content = {
        **facts,
        "figures": FIGURES,
        "summary": [row.as_json() for row in rows],
        "runs": [[row.as_json() for row in run] for run in runs],
    }
    path.write_text(json.dumps(content, indent=1) + "\n")


def write_markdown(path: Path, rows: Sequence[Row], machine: Mapping[str, object]) -> None:
    """Write a table; in a page that has the two marks, in place of what is between them."""
    table = f"{BEGIN}\n{make_markdown(rows, machine)}\n{END}\n"
    text = path.read_text() if path.exists() else ""
    before, begin, rest = text.partition(BEGIN)
    after = rest.partition(f"{END}\n")[2]
    path.write_text(f"{before}{table}{after}" if begin else table)


def make_markdown(rows: Sequence[Row], machine: Mapping[str, object]) -> str:
    """Return the facts and the table."""
    facts = ", ".join(f"{name.replace('_', ' ')} {fact}" for name, fact in machine.items())
    head = ["(.)", *COLUMNS[1:6], "its value", *COLUMNS[7:]]
    lines = [head, ["---"] * len(head), *(_cells(row) for row in rows)]
    return "\n".join([f"Measured with: {facts}.", "", *(f"| {' | '.join(c)} |" for c in lines)])


def _cells(row: Row) -> list[str]:
    reached = {True: "yes", False: "no", None: ""}[row.reached]
    if row.reached_in is not None and row.runs > 1:
        reached += f" ({row.reached_in}/{row.runs})"
    return [
        row.figure,
        row.what,
        row.queues,
        row.body,
        _number(row.value, row.unit),
        row.rival,
        "" if row.rival_value is None else _number(row.rival_value, row.unit),
        "" if row.ratio is None else f"{row.ratio:.2f}",
        str(row.target or ""),
        reached,
    ]


def _number(value: float, unit: str) -> str:
    text = f"{value:,.0f}" if abs(value) >= WHOLE_FROM else f"{value:.3g}"
    return f"{text} {unit}"
