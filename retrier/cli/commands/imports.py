"""`retrier imports`: messages that could not be read, and what can be done with them."""

from typing import Annotated

import typer

from retrier.cli.advice import advise_on_imports, advise_on_kept
from retrier.cli.api_client import Json
from retrier.cli.command import ExitCode, command, make_app, tools_of
from retrier.cli.ids import find_import_id
from retrier.cli.import_acts import act_on_each, find_import_ids, make_sure
from retrier.cli.import_options import Queue, Sending, Which
from retrier.cli.options import Output, Pages, Service, User, name_user, write_bytes
from retrier.cli.plans import note_plan
from retrier.cli.printer import Printer, counted
from retrier.cli.views.imports import show_import, show_imports, show_read_again, show_refused

app = make_app("Look at messages that could not be read, and find a way out for them.")

ImportId = Annotated[
    str, typer.Argument(metavar="ID", help="The id, or its first 8 characters or more.")
]
ImportIds = Annotated[
    list[str],
    typer.Argument(
        metavar="ID",
        help="Ids, or their first 8 characters or more; - reads them from standard input.",
    ),
]


@app.command(
    "list",
    epilog="""
    \b
    Examples:
      retrier imports list
      retrier imports list --queue error --limit 500
      retrier imports list --queue orders --ascending --ids | retrier imports send --to orders -
    """,
)
@command
def list_imports(
    ctx: typer.Context,
    pages: Pages,
    service: Service,
    queue: Queue = None,
    *,
    ascending: Annotated[bool, typer.Option("--ascending", help="The oldest first.")] = False,
    ids: Annotated[
        bool, typer.Option("--ids", help="Print whole ids only, one per line, for a pipe.")
    ] = False,
) -> None:
    """List failed imports, the newest first."""
    printer = tools_of(ctx).printer
    with service.open(ctx) as api:
        direction = "asc" if ascending else "desc"
        found = pages.fetch(api, "imports", error_queue=queue or "", direction=direction)
    if service.as_json:
        printer.document({"total": found.total, "items": found.items})
    elif ids:
        printer.lines(item["id"] for item in found.items)
    elif found.items:
        show_imports(printer, found.items)
        printer.note(f"{len(found.items):,} of {counted(found.total, 'failed import')}")
        advise_on_imports(printer, found.items)
    else:
        printer.note("no failed import: everything could be read")


@app.command(
    epilog="""
    \b
    Examples:
      retrier imports show 3f2b91c0
      retrier imports show 3f2b91c0 --output body.bin
    """
)
@command
def show(ctx: typer.Context, import_id: ImportId, service: Service, output: Output = None) -> None:
    """Show one failed import.

    Why it could not be read, its headers as far as they can be, and its bytes. With --output its body is written to a file, byte for byte.
    """
    printer = tools_of(ctx).printer
    with service.open(ctx) as api:
        whole = find_import_id(api, import_id)
        found = api.find("imports", whole)
        if output is not None:
            data, _ = api.body("imports", whole, "body")
            write_bytes(output, data)
            printer.note(f"{counted(len(data), 'byte')} written to {output}")
    if service.as_json:
        printer.document(found)
    else:
        show_import(printer, found)
        advise_on_imports(printer, [found])


@app.command(
    epilog="""
    \b
    Examples:
      retrier imports retry 3f2b91c0
      retrier imports retry --queue error
      retrier imports retry 3f2b91c0 --destination orders
      retrier imports retry --all
    """
)
@command
def retry(ctx: typer.Context, which: Which, service: Service, user: User = "") -> None:
    """Read failed imports again.

    With the settings of today. What can be read is a failed message or a confirmation then.
    """
    which.check()
    printer = tools_of(ctx).printer
    with service.open(ctx) as api:
        if which.dry_run:
            _show_preview(printer, which.look(api), as_json=service.as_json)
            return
        came_to = which.ask(api, name_user(user))
    if service.as_json:
        printer.document(came_to)
    else:
        show_read_again(printer, came_to)
        advise_on_kept(printer, came_to)
    if came_to["kept"] or came_to["skipped"]:
        raise typer.Exit(ExitCode.REFUSED)


def _show_preview(printer: Printer, found: Json, *, as_json: bool) -> None:
    if as_json:
        printer.document({"dry_run": True, **found})
        return
    printer.line(f"would read again {counted(found['total'], 'failed import')}")
    note_plan(printer, found)


@app.command(
    epilog="""
    \b
    Examples:
      retrier imports send 3f2b91c0 --to orders
      retrier imports send 3f2b91c0 --to orders --again
    """
)
@command
def send(
    ctx: typer.Context,
    ids: ImportIds,
    sending: Sending,
    service: Service,
    user: User = "",
) -> None:
    """Send failed imports to a queue as they came.

    Byte for byte. What the broker has taken is no failed import any more; what it did not take stays.
    """
    printer, headers = tools_of(ctx).printer, name_user(user)
    to = sending.to
    with service.open(ctx) as api:
        done, refused = act_on_each(
            api, ("POST", "send"), find_import_ids(api, ids), headers, sending.content()
        )
    if service.as_json:
        printer.document({"sent_to": to, "sent": list(done), "refused": refused})
    else:
        total = counted(len(done) + len(refused), "failed import")
        printer.line(f"{len(done):,} of {total} sent to {to}")
        show_refused(printer, refused)
    if refused:
        raise typer.Exit(ExitCode.REFUSED)


@app.command(
    epilog="""
    \b
    Examples:
      retrier imports delete 3f2b91c0
      retrier imports list --queue test --ids | retrier imports delete --yes -
    """
)
@command
def delete(
    ctx: typer.Context,
    ids: ImportIds,
    service: Service,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Delete without asking.")] = False,
    user: User = "",
) -> None:
    """Delete failed imports for good.

    Their bytes are nowhere else: nothing brings them back.
    """
    tools, headers = tools_of(ctx), name_user(user)
    with service.open(ctx) as api:
        whole = find_import_ids(api, ids)
        make_sure(tools.confirm, len(whole), yes=yes)
        done, refused = act_on_each(api, ("DELETE",), whole, headers)
    if service.as_json:
        tools.printer.document({"deleted": list(done), "refused": refused})
    else:
        total = counted(len(done) + len(refused), "failed import")
        tools.printer.line(f"{len(done):,} of {total} deleted")
        show_refused(tools.printer, refused)
    if refused:
        raise typer.Exit(ExitCode.REFUSED)
