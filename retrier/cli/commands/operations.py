"""Commands about groups, operations and batches: lists, and the progress of one of them."""

from typing import Annotated

import typer

from retrier.cli.api_client import Json
from retrier.cli.command import command, make_app, tools_of
from retrier.cli.ids import find_batch_id, find_operation_id
from retrier.cli.options import Pages, Service, note_imports
from retrier.cli.printer import counted
from retrier.cli.progress import exit_code_of, watch_operation, with_pending
from retrier.cli.views.messages import show_groups
from retrier.cli.views.operations import show_batch, show_batches, show_operation, show_operations

operations_app = make_app("Look at retry operations: one for each request for retries.")

OperationId = Annotated[
    str, typer.Argument(metavar="ID", help="The id, or its first 8 characters or more.")
]
Watch = Annotated[bool, typer.Option("--watch", help="Follow it until it is over.")]


@operations_app.command("list", epilog="Example: retrier operations list --limit 10")
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


@operations_app.command(
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

    Its progress, and why messages named by id were skipped. With --watch the exit code is 1 if any
    message failed or was skipped, as with `retrier retry --watch`.
    """
    tools = tools_of(ctx)
    with service.open(ctx) as api:
        whole = find_operation_id(api, operation_id)
        found = watch_operation(tools, api, whole) if watch else api.find("operations", whole)
        if service.as_json:
            tools.printer.document(found)
        else:
            show_operation(tools.printer, with_pending(api, found))
    if watch:
        raise typer.Exit(exit_code_of(found))


batches_app = make_app("Look at the retry batches now alive; a batch that is done is deleted.")

BatchId = Annotated[
    str, typer.Argument(metavar="ID", help="The id, or its first 8 characters or more.")
]


@batches_app.command("list", epilog="Example: retrier batches list --json")
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


@batches_app.command("show", epilog="Example: retrier batches show 0c9e4f21")
@command
def show_batch_alive(ctx: typer.Context, batch_id: BatchId, service: Service) -> None:
    """Show one batch.

    With the claims that are in doubt: perhaps sent, but not recorded as sent.
    """
    printer = tools_of(ctx).printer
    with service.open(ctx) as api:
        found = api.find("batches", find_batch_id(api, batch_id))
    if service.as_json:
        printer.document(found)
    else:
        show_batch(printer, found)


groups_app = make_app("Look at failure groups.")

Classifier = Annotated[
    str | None,
    typer.Option(
        "--classifier", metavar="NAME", help="How to group; the service's first one by default."
    ),
]


@groups_app.command(
    epilog="""
    \b
    Examples:
      retrier groups
      retrier groups --classifier 'Message Type'
      retrier retry --group 5a1d0b7e --watch
    """
)
@command
def groups(ctx: typer.Context, service: Service, classifier: Classifier = None) -> None:
    """List failure groups.

    Groups with unresolved messages or with a retry in progress, the newest failure first.
    """
    printer = tools_of(ctx).printer
    with service.open(ctx) as api:
        names = api.texts("recoverability", "classifiers")
        if classifier is not None and classifier not in names:
            raise typer.BadParameter(f"{classifier!r} is none of: {', '.join(names)}")
        found = api.page("recoverability", "groups", classifier or names[0])
        if service.as_json:
            printer.document({"total": found.total, "items": found.items})
            return
        shown = [each for each in found.items if each["count"] or _is_under_way(each)]
        if shown:
            show_groups(printer, shown)
        else:
            printer.note("no group has an unresolved message")
        note_imports(printer, api)


def _is_under_way(group: Json) -> bool:
    """Say whether something of a group is not over; what is over stays in the service's list."""
    return group["operation_status"] not in ("None", "Completed", "ArchiveCompleted")
