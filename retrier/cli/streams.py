"""`retrier streams`: messages whose order matters: listed, shown, released."""

from collections.abc import Iterable
from typing import Annotated

import typer

from retrier.api.shapes import PlannedTotal
from retrier.api.shapes.service import ReleasedMessages, Stream, StreamDetails, StreamMessage
from retrier.cli.api_client import LARGEST_PAGE
from retrier.cli.command import (
    CalledService,
    Pages,
    User,
    command,
    find_message_id,
    make_app,
    name_user,
    offer_queues,
)
from retrier.cli.printer import Column, Printer, counted, minute, short_id
from retrier.cli.selection import PlanOption, note_plan, planned

_STREAMS = (
    Column(title="stream", flexible=True),
    Column(title="queue", flexible=True),
    Column(title="open"),
    Column(title="held"),
    Column(title="head"),
    Column(title="its state"),
)
_MESSAGES = (
    Column(title="id"),
    Column(title="status"),
    Column(title="rule"),
    Column(title="failed (UTC)", time=True),
    Column(title="held", flexible=True),
)


def show_streams(printer: Printer, items: Iterable[Stream]) -> None:
    """Print one line per stream."""
    printer.table(_STREAMS, [_stream(item) for item in items])


def show_stream(printer: Printer, found: StreamDetails) -> None:
    """Print a stream and its open messages in their order."""
    printer.sheet(
        {
            "stream": found["id"],
            "queue": found["queue"],
            "open": found["open"],
            "held": found["held"],
            "head": f"{short_id(found['head']['id'])}: {found['head']['state']}",
        }
    )
    printer.table(_MESSAGES, [_message(item) for item in found["messages"]])
    printer.note(f"{len(found['messages']):,} of {counted(found['open'], 'message')}")


def _stream(item: Stream) -> tuple[object, ...]:
    head = item["head"]
    state = head["disposition"] if head["status"] == "unresolved" else "retry issued"
    return (
        item["id"],
        item["queue"],
        f"{item['open']:,}",
        f"{item['held']:,}",
        short_id(head["id"]),
        state,
    )


def _message(item: StreamMessage) -> tuple[object, ...]:
    held = item.get("held_because") or ("released" if item["released"] else "no")
    status = "retry issued" if item["status"] == "retryIssued" else item["disposition"]
    return (
        short_id(item["id"]),
        status,
        item.get("rule", "none"),
        minute(item["last_failure"]),
        held,
    )


app = make_app("Streams: messages whose order matters.")

StreamId = Annotated[str, typer.Argument(metavar="STREAM", help="The id of the stream.")]
Queue = Annotated[
    str,
    typer.Option(
        "--queue",
        metavar="QUEUE",
        autocompletion=offer_queues,
        help="The queue where its messages failed.",
    ),
]
InQueue = Annotated[
    str,
    typer.Option(
        "--queue",
        metavar="QUEUE",
        autocompletion=offer_queues,
        help="Only the streams of this queue.",
    ),
]
OnlyHeld = Annotated[bool, typer.Option("--held", help="Only streams with held messages.")]
Ids = Annotated[
    list[str] | None,
    typer.Option("--id", metavar="ID", help="Only this message; may be given several times."),
]


@app.command("list", epilog="Example: retrier streams list --held")
@command
def list_streams(
    ctx: typer.Context,
    pages: Pages,
    service: CalledService,
    queue: InQueue = "",
    *,
    held: OnlyHeld = False,
) -> None:
    """List the streams with open messages, most held first."""
    printer = service.printer(ctx)
    filters = {"held": "true"} if held else {}
    with service.open(ctx) as api:
        found = pages.fetch(api, Stream, "streams", queue=queue, **filters)
    printer.show_list(found, show_streams, "stream", "no stream has open messages")


@app.command(epilog='Example: retrier streams show "order 42" --queue orders')
@command
def show(ctx: typer.Context, stream: StreamId, service: CalledService, queue: Queue) -> None:
    """Show a stream: its open messages, and what holds them."""
    printer = service.printer(ctx)
    with service.open(ctx) as api:
        found = api.find(StreamDetails, "streams", stream, queue=queue, per_page=LARGEST_PAGE)
    printer.show(found, show_stream)


@app.command(
    epilog="""
    \b
    Examples:
      retrier streams release "order 42" --queue orders
      retrier streams release "order 42" --queue orders --id 5e0c7a41
    """
)
@command
def release(
    ctx: typer.Context,
    stream: StreamId,
    service: CalledService,
    queue: Queue,
    ids: Ids = None,
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Count what would be released; change nothing.")
    ] = False,
    plan: PlanOption = None,
    user: User = "",
) -> None:
    """Let messages be retried before earlier ones of their stream.

    All that is held now, or those that are named. What fails again is held again.
    """
    printer = service.printer(ctx)
    if ids and (dry_run or plan is not None):
        raise typer.BadParameter("--dry-run and --plan go with no ids.")
    with service.open(ctx) as api:
        path = ("streams", stream, "release")
        if dry_run:
            found = api.act(PlannedTotal, "POST", (*path, "preview"), None, {}, {"queue": queue})
            printer.show(
                {"dry_run": True, **found}, lambda printer, _: _show_preview(printer, found)
            )
            return
        named = {"ids": [find_message_id(api, each) for each in ids]} if ids else planned(plan)
        body = named or None
        done = api.act(ReleasedMessages, "POST", path, body, name_user(user), {"queue": queue})
    printer.show(done, f"released: {counted(done['released'], 'message')} of stream {stream}")
    for each in () if service.as_json else done["not_held"]:
        printer.note(f"{each}: nothing held it")


def _show_preview(printer: Printer, found: PlannedTotal) -> None:
    printer.line(f"would release {counted(found['total'], 'message')}")
    note_plan(printer, found["plan"])
