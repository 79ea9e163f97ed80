"""`retrier redirects`: retries for one queue go to another: listed, set, deleted."""

from collections.abc import Sequence
from typing import Annotated

import typer

from retrier.api.shapes.messages import Redirect
from retrier.cli.api_client import ApiClient, Json
from retrier.cli.command import (
    CalledService,
    Pages,
    User,
    command,
    make_app,
    name_user,
    offer_queues,
)
from retrier.cli.printer import Column, Printer, minute
from retrier.domain.redirects import redirect_id
from retrier.errors import RequestRefused

app = make_app("Redirects: retries for one queue go to another.")

_COLUMNS = (
    Column(title="from", flexible=True),
    Column(title="to", flexible=True),
    Column(title="since (UTC)", time=True),
)
_ALL = 1_000_000

From = Annotated[
    str,
    typer.Argument(metavar="FROM", autocompletion=offer_queues, help="The queue it comes from."),
]
To = Annotated[str, typer.Argument(metavar="TO", help="The queue it leads to.")]


@app.command("list", epilog="Example: retrier redirects list")
@command
def list_redirects(ctx: typer.Context, pages: Pages, service: CalledService) -> None:
    """List the redirects, by the queue they come from."""
    printer = service.printer(ctx)
    with service.open(ctx) as api:
        found = pages.fetch(api, Redirect, "redirects", direction="asc")
    printer.show_list(found, _show_table, "redirect", "no redirect is set")


@app.command("set", epilog="Example: retrier redirects set orders orders.new")
@command
def set_redirect(
    ctx: typer.Context,
    source: From,
    target: To,
    service: CalledService,
    *,
    pending: Annotated[
        bool,
        typer.Option("--pending", help="Also retry again what was sent to FROM and is pending."),
    ] = False,
    user: User = "",
) -> None:
    """Send retries for one queue to another.

    It applies to what is staged from now on, and replaces another redirect from the same queue.
    """
    _check(source, target)
    names: Json = {"fromphysicaladdress": source, "tophysicaladdress": target}
    with service.open(ctx) as api:
        known = _find(api, source)
        if known is not None and known["to_physical_address"] != target:
            path = ("redirects", redirect_id(source))
            api.do("PUT", path, {"tophysicaladdress": target}, name_user(user))
        if known is None or pending:
            # Of a pair that is there already only what is pending is changed by this.
            body = names | {"retryexisting": pending}
            api.do("POST", ("redirects",), body, name_user(user))
    done: Json = {"from_physical_address": source, "to_physical_address": target}
    service.printer(ctx).show(done, f"retries for {source} go to {target}")


@app.command("delete", epilog="Example: retrier redirects delete orders")
@command
def delete_redirect(
    ctx: typer.Context, source: From, service: CalledService, user: User = ""
) -> None:
    """Delete the redirect from a queue: retries for it go there again."""
    _check(source)
    with service.open(ctx) as api:
        if _find(api, source) is None:
            raise RequestRefused(f"No redirect comes from the queue {source}.")
        api.do("DELETE", ("redirects", redirect_id(source)), None, name_user(user))
    deleted: Json = {"deleted": source}
    service.printer(ctx).show(deleted, f"retries for {source} go there again")


def _check(*queues: str) -> None:
    if not all(queue.strip() for queue in queues):
        raise typer.BadParameter("the name of a queue is empty.")


def _find(api: ApiClient, source: str) -> Redirect | None:
    listed = api.first(_ALL, Redirect, "redirects").items
    return next((each for each in listed if each["from_physical_address"] == source), None)


def _show_table(printer: Printer, items: Sequence[Redirect]) -> None:
    printer.table(_COLUMNS, [_row(each) for each in items])


def _row(item: Redirect) -> tuple[object, ...]:
    last = minute(item["last_modified"])
    return item["from_physical_address"], item["to_physical_address"], last
