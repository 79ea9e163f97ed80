"""`retrier events` and `retrier errors history`: what happened, and what happens now."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Annotated

import typer

from retrier.cli.api_client import ApiClient, Json
from retrier.cli.command import ExitCode, Tools, command, make_app, tools_of
from retrier.cli.commands.errors import MessageId
from retrier.cli.commands.errors import app as errors_app
from retrier.cli.event_follower import EventFollower
from retrier.cli.ids import find_message_id, find_operation_id
from retrier.cli.options import Pages, Service
from retrier.cli.printer import counted
from retrier.cli.views.events import show_attempts, show_event, show_events, show_history

app = make_app("Look at what happened.")


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedEvents:
    """Which events are shown: those that match all options given."""

    kind: Annotated[
        list[str] | None,
        typer.Option("--kind", metavar="KIND", help="Of this kind; may be given again."),
    ] = None
    operation: Annotated[
        str | None, typer.Option("--operation", metavar="ID", help="About this operation.")
    ] = None
    message: Annotated[
        str | None, typer.Option("--message", metavar="ID", help="About this failed message.")
    ] = None

    def params(self, api: ApiClient) -> dict[str, str]:
        """Return the query parameters of the API."""
        parts = {
            "kind": ",".join(self.kind or ()),
            "operation": find_operation_id(api, self.operation) if self.operation else "",
            "message": find_message_id(api, self.message) if self.message else "",
        }
        return {name: value for name, value in parts.items() if value}


Follow = Annotated[
    bool, typer.Option("--follow", "-f", help="Show what happens from now on, as it happens.")
]


@app.command(
    epilog="""
    \b
    Examples:
      retrier events --limit 20
      retrier events --follow
      retrier events --follow --kind operation_completed --limit 1 --json
    """
)
@command
def events(
    ctx: typer.Context,
    wanted: WantedEvents,
    pages: Pages,
    service: Service,
    *,
    follow: Follow = False,
) -> None:
    """Show who did what to what, the newest first.

    With --follow: what happens from now on, until Ctrl-C or until --limit events have come. With
    --json each of them is one line.
    """
    tools = tools_of(ctx)
    if follow and (pages.page or pages.per_page):
        raise typer.BadParameter("--follow goes with neither --page nor --per-page.")
    with service.open(ctx) as api:
        params = wanted.params(api)
        if follow:
            came = islice(EventFollower(tools, api, params).follow(), pages.limit)
            _show_as_they_come(tools, came, as_json=service.as_json)
            return
        found = pages.fetch(api, "eventlogitems", **params)
    if service.as_json:
        tools.printer.document({"total": found.total, "items": found.items})
    elif found.items:
        show_events(tools.printer, found.items)
        tools.printer.note(f"{len(found.items):,} of {counted(found.total, 'event')}")
    else:
        tools.printer.note("no event matches")


def _show_as_they_come(tools: Tools, came: Iterable[Json], *, as_json: bool) -> None:
    try:
        for event in came:
            if as_json:
                tools.printer.record(event)
            else:
                show_event(tools.printer, event)
    except KeyboardInterrupt:
        raise typer.Exit(ExitCode.INTERRUPTED) from None


@errors_app.command(
    epilog="""
    \b
    Examples:
      retrier errors history 3f2b91c0
      retrier errors history 3f2b91c0 --attempts --limit 500
    """
)
@command
def history(
    ctx: typer.Context,
    message_id: MessageId,
    pages: Pages,
    service: Service,
    *,
    attempts: Annotated[bool, typer.Option("--attempts", help="Its failures only.")] = False,
) -> None:
    """Show all that happened to one failed message.

    The oldest first: its failures, who asked for which retry, when it was sent, and what became of
    it.
    """
    printer = tools_of(ctx).printer
    with service.open(ctx) as api:
        whole = find_message_id(api, message_id)
        found = pages.fetch(api, "errors", whole, "attempts" if attempts else "events")
    if service.as_json:
        printer.document({"total": found.total, "items": found.items})
        return
    show = show_attempts if attempts else show_history
    show(printer, found.items)
    printer.note(f"{len(found.items):,} of {found.total:,}")
