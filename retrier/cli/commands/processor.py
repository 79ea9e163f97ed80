"""`retrier processor` and `retrier ledger`: what the service does, and whether all adds up."""

import typer

from retrier.cli.command import ExitCode, command, make_app, tools_of
from retrier.cli.options import Service
from retrier.cli.views.processor import show_ledger, show_processor

app = make_app("Look at the service.")


@app.command(epilog="Example: retrier processor --json | jq .waits_for")
@command
def processor(ctx: typer.Context, service: Service) -> None:
    """Show what the processor does, and what it waits for."""
    printer = tools_of(ctx).printer
    with service.open(ctx) as api:
        found = api.find("processor")
    if service.as_json:
        printer.document(found)
    else:
        show_processor(printer, found)


@app.command(epilog="Example: retrier ledger")
@command
def ledger(ctx: typer.Context, service: Service) -> None:
    """Show how many messages came, and what became of them.

    Ends with 1 if the counts do not add up.
    """
    printer = tools_of(ctx).printer
    with service.open(ctx) as api:
        found = api.find("ledger")
    if service.as_json:
        printer.document(found)
    else:
        show_ledger(printer, found)
    if any(found[part]["difference"] for part in ("deliveries", "messages")):
        raise typer.Exit(ExitCode.REFUSED)
