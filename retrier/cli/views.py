"""`retrier views`: lists of the page that were saved under a name: listed, shown, deleted."""

from collections.abc import Sequence
from typing import Annotated
from urllib.parse import parse_qsl

import typer

from retrier.api.shapes.messages import SavedView
from retrier.cli.api_client import ApiClient, Json
from retrier.cli.command import CalledService, Pages, User, command, make_app, name_user
from retrier.cli.printer import Column, Printer, minute
from retrier.domain.views import ViewList
from retrier.errors import RequestRefused

app = make_app("Views: lists of the page that were saved under a name.")

_COLUMNS = (
    Column(title="name", flexible=True),
    Column(title="list"),
    Column(title="conditions", flexible=True, weight=2),
    Column(title="by", flexible=True),
    Column(title="saved (UTC)", time=True),
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the view.")]


@app.command("list", epilog="Example: retrier views list")
@command
def list_views(ctx: typer.Context, pages: Pages, service: CalledService) -> None:
    """List the saved views by name."""
    printer = service.printer(ctx)
    with service.open(ctx) as api:
        found = pages.fetch(api, SavedView, "views")
    printer.show_list(found, _show_table, "view", "no view is saved")


@app.command("show", epilog="Example: retrier views show 'night shift'")
@command
def show_view(ctx: typer.Context, name: Name, service: CalledService) -> None:
    """Show what a view keeps."""
    with service.open(ctx) as api:
        found = api.find(SavedView, "views", name)
    service.printer(ctx).show(found, _show_one)


@app.command("delete", epilog="Example: retrier views delete 'night shift'")
@command
def delete_view(ctx: typer.Context, name: Name, service: CalledService, user: User = "") -> None:
    """Delete a view: its address leads nowhere then."""
    with service.open(ctx) as api:
        api.find(SavedView, "views", name)
        api.do("DELETE", ("views", name), None, name_user(user))
    deleted: Json = {"deleted": name}
    service.printer(ctx).show(deleted, f"the view {name} is deleted")


_OF_THE_PAGE = ("sort", "direction", "columns")
"""What a view says of how the page shows a list: no conditions."""


def find_conditions(api: ApiClient, name: str) -> dict[str, str]:
    """Return the conditions of a view of messages. Raises RequestRefused for one of another list."""
    found = api.find(SavedView, "views", name)
    if found["page"] != ViewList.MESSAGES:
        raise RequestRefused(f"The view {name} is one of {found['page']}, not of messages.")
    kept = dict(parse_qsl(found["query"]))
    certain = kept.keys() & {"status", "message_id", "archived_by", "operation"}
    # The page shows what is unresolved unless a view says otherwise; all of it has no status here.
    status = kept.pop("status", "" if certain else "unresolved")
    kept |= {} if status in ("", "all") else {"status": status}
    # The order is that of the options.
    return {name: value for name, value in kept.items() if name not in _OF_THE_PAGE}


def _show_table(printer: Printer, items: Sequence[SavedView]) -> None:
    printer.table(_COLUMNS, [_row(each) for each in items])


def _row(item: SavedView) -> tuple[object, ...]:
    return (
        item["name"],
        item["page"],
        _conditions(item),
        item["saved_by"],
        minute(item["saved_at"]),
    )


def _show_one(printer: Printer, found: SavedView) -> None:
    printer.sheet(
        {
            "name": found["name"],
            "list": found["page"],
            "conditions": _conditions(found),
            "address": found["path"],
            "saved by": found["saved_by"],
            "saved at": minute(found["saved_at"]),
        }
    )


def _conditions(item: SavedView) -> str:
    return ", ".join(f"{name} {value}" for name, value in parse_qsl(item["query"]))
