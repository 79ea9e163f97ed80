"""Plans on the command line: what a dry run counted, named again by the act."""

from typing import Annotated

import typer

from retrier.cli.api_client import Json, valid_text
from retrier.cli.printer import Printer

PlanOption = Annotated[
    str | None,
    typer.Option("--plan", metavar="PLAN", help="Only what this --dry-run counted."),
]


def planned(plan: str | None) -> Json:
    """Return the member of a request that names a plan; none without one."""
    return {} if plan is None else {"plan": valid_text(plan)}


def note_plan(printer: Printer, found: Json) -> None:
    """Say how to do what a dry run counted, and no more."""
    printer.note("nothing was asked for, nothing has changed")
    printer.note(f"To do it to what was counted, and to no more: --plan {found['plan']}")
