"""`retrier batches`: the retry batches now alive."""

from typing import Annotated

import typer

from retrier.cli.ids import find_batch_id
from retrier.cli.options import Service
from retrier.cli.parameters import command
from retrier.cli.tools import tools_of
from retrier.cli.typer_app import make_app
from retrier.cli.views.operations import show_batch, show_batches

app = make_app("Look at the retry batches now alive; one that is done is gone.")

BatchId = Annotated[
    str, typer.Argument(metavar="ID", help="The id, or its first 8 characters or more.")
]


@app.command("list", epilog="Example: retrier batches list --json")
@command
def list_batches(ctx: typer.Context, service: Service) -> None:
    """List every batch now alive, the oldest first."""
    printer = tools_of(ctx).printer
    with service.open(ctx) as api:
        found = api.page("batches")
    if service.as_json:
        printer.document({"total": found.total, "items": found.items})
    elif found.items:
        show_batches(printer, found.items)
    else:
        printer.note("no batch is alive")


@app.command(epilog="Example: retrier batches show 0c9e4f21")
@command
def show(ctx: typer.Context, batch_id: BatchId, service: Service) -> None:
    """Show one batch.

    With the claims that are in doubt: sent perhaps, and not recorded.
    """
    printer = tools_of(ctx).printer
    with service.open(ctx) as api:
        found = api.find("batches", find_batch_id(api, batch_id))
    if service.as_json:
        printer.document(found)
    else:
        show_batch(printer, found)
