"""`retrier operations`: every retry that was asked for, and how far it is."""

from typing import Annotated

import typer

from retrier.cli.ids import find_operation_id
from retrier.cli.options import Pages, Service
from retrier.cli.parameters import command
from retrier.cli.texts import counted
from retrier.cli.tools import tools_of
from retrier.cli.typer_app import make_app
from retrier.cli.views.operations import show_operation, show_operations
from retrier.cli.watching import exit_code_of, watch_operation

app = make_app("Look at retry operations: all that one request asked for.")

OperationId = Annotated[
    str, typer.Argument(metavar="ID", help="The id, or its first 8 characters or more.")
]
Watch = Annotated[bool, typer.Option("--watch", help="Follow it until it is over.")]


@app.command("list", epilog="Example: retrier operations list --limit 10")
@command
def list_operations(ctx: typer.Context, pages: Pages, service: Service) -> None:
    """List retry operations, the newest first."""
    printer = tools_of(ctx).printer
    with service.open(ctx) as api:
        found = pages.fetch(api, "operations")
    if service.as_json:
        printer.document({"total": found.total, "items": found.items})
    elif found.items:
        show_operations(printer, found.items)
        printer.note(f"{len(found.items):,} of {counted(found.total, 'operation')}")
    else:
        printer.note("no retry was asked for yet")


@app.command(
    epilog="""
    \b
    Examples:
      retrier operations show 8d07c3aa
      retrier operations show 8d07c3aa --watch
    """
)
@command
def show(
    ctx: typer.Context, operation_id: OperationId, service: Service, *, watch: Watch = False
) -> None:
    """Show one operation.

    How far it is, and why what was named was skipped. With --watch it ends with 1 if anything failed or was skipped, like `retrier retry --watch`.
    """
    tools = tools_of(ctx)
    with service.open(ctx) as api:
        whole = find_operation_id(api, operation_id)
        found = watch_operation(tools, api, whole) if watch else api.find("operations", whole)
    if service.as_json:
        tools.printer.document(found)
    else:
        show_operation(tools.printer, found)
    if watch:
        raise typer.Exit(exit_code_of(found))
