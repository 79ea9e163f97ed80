"""`retrier archive`, `unarchive`, `resolve`, and the operations that these become."""

from collections.abc import Iterable, Mapping
from typing import Annotated

import typer

from retrier.api.shapes.operations import (
    ArchiveOperation,
    ArchiveOperationDetails,
    ArchiveOutcome,
    ArchivePreview,
)
from retrier.cli.api_client import ApiClient, Json
from retrier.cli.command import (
    CalledService,
    ExitCode,
    FollowedPages,
    Tools,
    command,
    find_archive_id,
    make_app,
    offer_archives,
    tools_of,
)
from retrier.cli.operations import show_refused, show_skipped
from retrier.cli.printer import Column, Printer, counted, minute, moment, short_id
from retrier.cli.progress import ARCHIVES, watch_operation
from retrier.cli.retry import Asking
from retrier.cli.selection import (
    PlanOption,
    SelectionOptions,
    content_of,
    describe,
    note_plan,
    planned,
)
from retrier.domain.values import dataclass

_OPERATIONS = (
    Column(title="id"),
    Column(title="act"),
    Column(title="state"),
    Column(title="asked (UTC)", extra=True),
    Column(title="total", number=True),
    Column(title="done", number=True),
    Column(title="skipped", number=True),
    Column(title="by", flexible=True, extra=True),
    Column(title="what", flexible=True),
)
WORDS = {
    "archive": "archived",
    "unarchive": "unarchived",
    "resolve": "resolved",
}


def show_archive_operations(printer: Printer, items: Iterable[ArchiveOperation]) -> None:
    """Print one line per operation."""
    printer.table(_OPERATIONS, [_line(item) for item in items])


def show_archive_operation(printer: Printer, found: ArchiveOperationDetails) -> None:
    """Print everything about one operation."""
    shown: Mapping[str, object] = found
    names = ("act", "state", "why", "reason", "total", "done", "skipped", "remaining", "undo_of")
    printer.sheet(
        {"id": found["id"], "what": found["originator"]}
        | {**content_of(found["selection"]), "asked by": found["requested_by"]}
        | {name.replace("_", " "): shown.get(name) for name in names}
        | _times(found)
    )
    show_refused(printer, found["skipped_because"])
    show_skipped(printer, found)


def show_act(printer: Printer, act: str, done: ArchiveOutcome) -> None:
    """Print what came of a request, or how to follow it."""
    operation = short_id(done["operation_id"])
    if done["state"] == "completed":
        printer.line(f"{WORDS[act]}: {counted(_done(done), 'message')}, operation {operation}")
        show_refused(printer, done["skipped"])
        return
    total = counted(done["total"], "message")
    printer.line(f"asked to {act} {total}: operation {operation}")
    printer.note(f"Follow it with: retrier archive-operations show {operation} --watch")


def _done(done: ArchiveOutcome) -> int:
    """Return how many were changed: one of the three words is there."""
    return done.get("archived", 0) + done.get("unarchived", 0) + done.get("resolved", 0)


def changed_none(done: ArchiveOutcome) -> bool:
    """Say whether a request is over and has changed none of its messages."""
    skipped = sum(each["count"] for each in done["skipped"])
    return bool(done["state"] == "completed" and done["total"] and skipped == done["total"])


def show_archive_preview(printer: Printer, act: str, what: str, found: ArchivePreview) -> None:
    """Print what an act would change and what it would leave as it is."""
    printer.line(f"would {act} {counted(found['total'], 'message')}: {what}")
    show_refused(printer, found["skipped"])
    note_plan(printer, found["plan"])


def _line(item: Mapping[str, object]) -> tuple[object, ...]:
    counts = (f"{item[name]:,}" for name in ("total", "done", "skipped"))
    asked = (item["requested_by"], item["originator"])
    state = (item["act"], item["state"], minute(item["created_at"]))
    return (short_id(item["id"]), *state, *counts, *asked)


def _times(found: Mapping[str, object]) -> dict[str, str]:
    names = {"asked": "created_at", "started": "started_at", "completed": "completed_at"}
    return {shown: moment(found[name]) for shown, name in names.items() if name in found}


PATH = ("archive_operations",)

acts = make_app("Deal with failed messages without a retry.")
app = make_app("Look at archive operations: one for each request to archive, unarchive, resolve.")

Why = Annotated[
    str | None, typer.Option("--why", metavar="TEXT", help="Why; shown with the operation.")
]
Watch = Annotated[bool, typer.Option("--watch", help="Follow it until it is over.")]
OperationId = Annotated[
    str,
    typer.Argument(
        metavar="ID",
        autocompletion=offer_archives,
        help="The id, or its first 8 characters or more.",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ActOptions(Asking):
    """Why it is done, and what is printed."""

    why: Why = None
    watch: Watch = False
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be changed; change nothing.")
    ] = False
    plan: PlanOption = None


@acts.command(
    epilog="""
    \b
    Examples:
      retrier archive 3f2b91c0
      retrier archive --group 5a1d0b7e --why "the shop is closed" --watch
      retrier archive --queue orders --failed-to 2026-05-04T00:00:00Z --dry-run
    """
)
@command
def archive(
    ctx: typer.Context, chosen: SelectionOptions, options: ActOptions, service: CalledService
) -> None:
    """Put failed messages aside.

    Conditions and --all mean unresolved messages. A message that is being sent is skipped. More
    than 1000 are archived chunk by chunk: the service goes on with it, and it can be undone.
    Archived messages are deleted after a time: 10 days, if retention.archived says nothing else.
    """
    _act(ctx, "archive", chosen, options, service)


@acts.command(
    epilog="""
    \b
    Examples:
      retrier unarchive 3f2b91c0
      retrier unarchive --group 5a1d0b7e
    """
)
@command
def unarchive(
    ctx: typer.Context, chosen: SelectionOptions, options: ActOptions, service: CalledService
) -> None:
    """Take archived messages back: they are unresolved again.

    To take back what one operation archived: retrier archive-operations undo.
    """
    _act(ctx, "unarchive", chosen, options, service)


@acts.command(
    epilog="""
    \b
    Examples:
      retrier resolve 3f2b91c0
      retrier resolve --message-type Shop.PlaceOrder --why "done by hand" --watch
    """
)
@command
def resolve(
    ctx: typer.Context, chosen: SelectionOptions, options: ActOptions, service: CalledService
) -> None:
    """Say that failed messages are dealt with.

    Conditions and --all mean unresolved messages; for those that wait for the outcome of a retry:
    retrier pending resolve.
    """
    _act(ctx, "resolve", chosen, options, service)


def _act(
    ctx: typer.Context,
    act: str,
    chosen: SelectionOptions,
    options: ActOptions,
    service: CalledService,
) -> None:
    chosen.check()
    headers, tools, printer = options.headers(), tools_of(ctx), service.printer(ctx)
    with service.open(ctx) as api:
        body = {"act": act, "selection": chosen.selection(api)} | _reason(options.why)
        if options.dry_run:
            _preview(printer, api, body)
            return
        done = api.ask(ArchiveOutcome, PATH, body | planned(options.plan), headers)
        _print_done(tools, printer, api, act, done, watch=options.watch)
    raise typer.Exit(ExitCode.REFUSED if changed_none(done) else ExitCode.DONE)


def _reason(why: str | None) -> Json:
    return {} if why is None else {"why": why}


def _preview(printer: Printer, api: ApiClient, body: Json) -> None:
    found, what = api.look(ArchivePreview, (*PATH, "preview"), body), describe(body["selection"])
    printer.show(
        {"dry_run": True, "what": what, **found},
        lambda printer, _: show_archive_preview(printer, body["act"], what, found),
    )


def _print_done(
    tools: Tools, printer: Printer, api: ApiClient, act: str, done: ArchiveOutcome, *, watch: bool
) -> None:
    if watch and done["state"] != "completed":
        found = watch_operation(tools, api, done["operation_id"], ARCHIVES)
        printer.show(found, show_archive_operation)
    else:
        printer.show(done, lambda printer, done: show_act(printer, act, done))
    if act == "archive" and not changed_none(done) and not printer.as_json:
        operation = short_id(done["operation_id"])
        printer.note(f"Take it back with: retrier archive-operations undo {operation}")


@app.command("list", epilog="Example: retrier archive-operations list --limit 10")
@command
def list_archive_operations(
    ctx: typer.Context, pages: FollowedPages, service: CalledService
) -> None:
    """List archive operations, the newest first."""
    printer = service.printer(ctx)
    with service.open(ctx) as api:
        found = pages.walk(api, ArchiveOperation, *PATH)
        nothing = "nothing was archived, unarchived or resolved yet"
        pages.show(printer, found, show_archive_operations, "operation", nothing)


@app.command(epilog="Example: retrier archive-operations show 8d07c3aa --watch")
@command
def show(
    ctx: typer.Context, operation_id: OperationId, service: CalledService, *, watch: Watch = False
) -> None:
    """Show one operation.

    Its progress, and why messages were left as they were.
    """
    tools = tools_of(ctx)
    with service.open(ctx) as api:
        whole = find_archive_id(api, operation_id)
        found = (
            watch_operation(tools, api, whole, ARCHIVES)
            if watch
            else api.find(ArchiveOperationDetails, *PATH, whole)
        )
    service.printer(ctx).show(found, show_archive_operation)


@app.command(epilog="Example: retrier archive-operations undo 8d07c3aa --watch")
@command
def undo(
    ctx: typer.Context,
    operation_id: OperationId,
    asking: Asking,
    service: CalledService,
    *,
    why: Why = None,
    watch: Watch = False,
) -> None:
    """Take back what is still archived by an operation.

    This is an operation itself. What was taken back before, or failed again, stays as it is. What
    retention has deleted since (retention.archived) is gone. Ends with 1 if nothing is left.
    """
    tools, headers = tools_of(ctx), asking.headers()
    with service.open(ctx) as api:
        whole = find_archive_id(api, operation_id)
        archived = api.find(ArchiveOperationDetails, *PATH, whole)["done"]
        done = api.ask(ArchiveOutcome, (*PATH, whole, "undo"), _reason(why), headers)
        _print_done(tools, service.printer(ctx), api, "unarchive", done, watch=watch)
    if done["total"] < archived:
        tools.printer.note(_GONE.format(gone=archived - done["total"], archived=archived))
    raise typer.Exit(ExitCode.DONE if done["total"] else ExitCode.REFUSED)


_GONE = (
    "{gone:,} of the {archived:,} that it archived are archived no longer: they were taken back "
    "before, failed again, or were deleted (retention.archived)"
)
