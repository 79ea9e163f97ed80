"""`retrier errors`: lists failed messages, and shows one of them or its body."""

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from retrier.cli.advice import advise_on_missing_queue, note_settled
from retrier.cli.api_client import ApiClient, Listing
from retrier.cli.command import command, make_app, tools_of
from retrier.cli.ids import find_message_id, find_one_message, is_short
from retrier.cli.options import Output, Pages, Service, note_imports, one_of, write_bytes
from retrier.cli.printer import Column, Printer, counted
from retrier.cli.selection_options import Parts
from retrier.cli.views.messages import show_message, show_messages
from retrier.errors import RequestRefused

app = make_app("Look at failed messages.")


class Status(StrEnum):
    """The statuses of a failed message, as the API calls them; dead ones are unresolved."""

    UNRESOLVED = "unresolved"
    RETRY_ISSUED = "retryIssued"
    RESOLVED = "resolved"
    ARCHIVED = "archived"
    DEAD = "dead"


class Sort(StrEnum):
    """The keys by which a list can be sorted."""

    ID = "id"
    MESSAGE_ID = "message_id"
    MESSAGE_TYPE = "message_type"
    STATUS = "status"
    TIME_SENT = "time_sent"
    MODIFIED = "modified"
    TIME_OF_FAILURE = "time_of_failure"


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters(Parts):
    """Which messages are listed: those that match all options given."""

    status: Annotated[
        list[Status] | None,
        typer.Option(
            "--status",
            parser=one_of(Status),
            metavar="STATUS",
            help=f"In this status: {', '.join(Status)}; may be given again, dead aside.",
        ),
    ] = None
    archived_by: Annotated[
        str | None,
        typer.Option("--archived-by", metavar="ID", help="Archived by this archive operation."),
    ] = None
    message_id: Annotated[
        str | None,
        typer.Option("--message-id", metavar="ID", help="With exactly this id of its sender."),
    ] = None

    def params(self, api: ApiClient) -> dict[str, str]:
        """Return the query parameters of the API. Raises BadParameter, RequestRefused."""
        more = {
            "status": ",".join(self.status or ()),
            "archived_by": self.archived_by,
            "message_id": self.message_id,
        }
        parts = {name: str(value) for name, value in self.resolved(api).items()}
        return parts | {name: value for name, value in more.items() if value}


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """How the list is sorted, and whether only ids are printed."""

    sort: Annotated[
        Sort,
        typer.Option(
            "--sort",
            parser=one_of(Sort),
            metavar="KEY",
            help=f"What it is sorted by: {', '.join(Sort)}.",
        ),
    ] = Sort.TIME_OF_FAILURE
    ascending: Annotated[
        bool, typer.Option("--ascending", help="The smallest or oldest first.")
    ] = False
    ids: Annotated[
        bool, typer.Option("--ids", help="Print whole ids only, one per line, for a pipe.")
    ] = False

    def params(self) -> dict[str, str]:
        """Return the query parameters of the API."""
        return {"sort": self.sort, "direction": "asc" if self.ascending else "desc"}


MessageId = Annotated[
    str,
    typer.Argument(metavar="ID", help="The id, its first 8 characters or more, or the message id."),
]


@app.command(
    "list",
    epilog="""
    \b
    Examples:
      retrier errors list --status unresolved --queue orders
      retrier errors list --group 5a1d0b7e --limit 1000
      retrier errors list --exception-type Shop.OutOfStock --ids | retrier retry -
    """,
)
@command
def list_errors(
    ctx: typer.Context, wanted: Filters, order: Order, pages: Pages, service: Service
) -> None:
    """List failed messages, the newest failure first."""
    printer = tools_of(ctx).printer
    with service.open(ctx) as api:
        conditions = wanted.params(api)
        found = pages.fetch_messages(api, "errors", **conditions, **order.params())
        if service.as_json:
            printer.document({"total": found.total, "items": found.items})
        elif order.ids:
            printer.lines(item["id"] for item in found.items)
        else:
            _show_list(printer, found, conditions)
            note_imports(printer, api)


def _show_list(printer: Printer, found: Listing, conditions: Mapping[str, str]) -> None:
    if found.items:
        show_messages(printer, found.items)
        printer.note(f"{len(found.items):,} of {counted(found.total, 'message')}")
        if "status" not in conditions:
            note_settled(printer, found.items)
    else:
        printer.note("no failed message matches" if conditions else "there is no failed message")


@app.command(
    epilog="""
    \b
    Examples:
      retrier errors show 3f2b91c0
      retrier errors show 3f2b91c0 --json | jq .processing_attempts
    """
)
@command
def show(ctx: typer.Context, message_id: MessageId, service: Service) -> None:
    """Show one failed message.

    Where, when and why it failed, its headers, attempts and groups, and the retry under way.
    """
    printer = tools_of(ctx).printer
    with service.open(ctx) as api:
        found = api.find("errors", find_one_message(api, message_id))
    if service.as_json:
        printer.document(found)
    else:
        show_message(printer, found)
        advise_on_missing_queue(printer, found.get("disposition_reason"), found["id"])


@app.command(
    epilog="""
    \b
    Examples:
      retrier errors body 3f2b91c0
      retrier errors body 3f2b91c0 --output order.json
    """
)
@command
def body(
    ctx: typer.Context, message_id: MessageId, service: Service, output: Output = None
) -> None:
    """Print the body of a failed message, byte for byte.

    On a terminal its control characters are written out, and a body that is no text is refused.
    """
    printer = tools_of(ctx).printer
    with service.open(ctx) as api:
        # Not every text is a unique id: bodies are also found by message id, which can be any text.
        whole = find_message_id(api, message_id) if is_short(message_id) else message_id
        data, content_type = api.body("messages", whole, "body")
    if output is not None:
        write_bytes(output, data)
        printer.note(f"{counted(len(data), 'byte')} written to {output}")
    if service.as_json:
        printer.document({"id": whole, "content_type": content_type, **_in_json(data, output)})
    elif output is None:
        _print(printer, data)


@app.command(
    epilog="""
    \b
    Examples:
      retrier errors hosts
      retrier errors list --host box-7
    """
)
@command
def hosts(ctx: typer.Context, service: Service) -> None:
    """Count unresolved messages by their host."""
    printer = tools_of(ctx).printer
    with service.open(ctx) as api:
        counts = api.find("errors", "summary")["Hosts"]
    found = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    if service.as_json:
        printer.document([{"host": host, "count": count} for host, count in found])
    elif found:
        printer.table(_HOSTS, [(f"{count:,}", host) for host, count in found])
    else:
        printer.note("no unresolved message tells on which host it failed")


_HOSTS = (Column(title="messages", number=True), Column(title="host", flexible=True))


def _in_json(data: bytes, output: Path | None) -> dict[str, object]:
    if output is not None:
        return {"size": len(data), "output": str(output)}
    try:
        return {"size": len(data), "encoding": "utf-8", "body": data.decode()}
    except UnicodeDecodeError:
        return {"size": len(data), "encoding": "base64", "body": b64encode(data).decode()}


def _print(printer: Printer, data: bytes) -> None:
    if not printer.out.is_terminal:
        printer.raw(data)
        return
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise RequestRefused(
            f"The body is no text ({counted(len(data), 'byte')}): write it to a file with "
            "--output, or into a pipe."
        ) from None
    printer.text(text)
