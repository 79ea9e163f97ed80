"""`retrier processor` and `retrier ledger`: what the service does, and whether all adds up."""

from collections.abc import Mapping

import typer

from retrier.api.shapes.operations import Processor, WaitingOperation
from retrier.api.shapes.service import Ledger
from retrier.cli.command import CalledService, ExitCode, command, make_app
from retrier.cli.printer import Column, Printer, moment, short_id

_OPERATIONS = (
    Column(title="id"),
    Column(title="state"),
    Column(title="remaining", number=True),
    Column(title="what", flexible=True),
    Column(title="waits because", flexible=True, below=True),
)


_MOST_OPERATIONS = 50
"""So many at most are in the answer of the service."""


def show_processor(printer: Printer, found: Processor) -> None:
    """Print who is the processor, what it does, and the operations that are not over."""
    held = found["is_held"]
    here = found.get("here")
    printer.sheet(
        {
            "processor": f"{found['host']}, process {found['pid']}" if held else "no process",
            "since": moment(found["acquired_at"]) if held else None,
            "stage": found.get("stage"),
            "batch": found.get("batch_id"),
            "operation": found.get("operation_id"),
            "waits for": found.get("waits_for"),
            "why": found.get("why"),
            "until": moment(found["until"]) if "until" in found else None,
            "it says": None if here is None else here["reason"],
        }
    )
    if found["operations"]:
        printer.heading("operations")
        printer.table(_OPERATIONS, [_operation(each) for each in found["operations"]])
        if len(found["operations"]) >= _MOST_OPERATIONS:
            printer.note(f"the first {_MOST_OPERATIONS}; all: `retrier operations list`")


def _operation(item: WaitingOperation) -> tuple[object, ...]:
    return (
        short_id(item["id"]),
        item["state"],
        f"{item['remaining']:,}",
        item["originator"],
        item.get("waits_because"),
    )


def show_ledger(printer: Printer, found: Ledger) -> None:
    """Print both sums, term by term."""
    sums: Mapping[str, Mapping[str, object]] = {
        "deliveries": found["deliveries"],
        "failed messages": found["messages"],
    }
    for title, counts in sums.items():
        printer.heading(title)
        printer.sheet({name.replace("_", " "): f"{count:,}" for name, count in counts.items()})


app = make_app("Look at the service.")


@app.command(epilog="Example: retrier processor --json | jq .waits_for")
@command
def processor(ctx: typer.Context, service: CalledService) -> None:
    """Show what the processor does, and what it waits for."""
    printer = service.printer(ctx)
    with service.open(ctx) as api:
        found = api.find(Processor, "processor")
    printer.show(found, show_processor)


@app.command(epilog="Example: retrier ledger")
@command
def ledger(ctx: typer.Context, service: CalledService) -> None:
    """Show how many messages came, and what became of them.

    Ends with 1 if the counts do not add up.
    """
    printer = service.printer(ctx)
    with service.open(ctx) as api:
        found = api.find(Ledger, "ledger")
    printer.show(found, show_ledger)
    if any(found[part]["difference"] for part in ("deliveries", "messages")):
        raise typer.Exit(ExitCode.REFUSED)
