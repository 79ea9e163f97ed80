"""`retrier breakers`: which destinations get no retries now; opened and closed by hand."""

from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from retrier.api.shapes.service import Breaker, BreakerSet
from retrier.cli.api_client import Json
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
from retrier.cli.selection import duration

app = make_app("Breakers: destinations that get no retries while they fail.")

_COLUMNS = (
    Column(title="breaker", flexible=True),
    Column(title="state"),
    Column(title="since (UTC)", time=True),
    Column(title="why", flexible=True, weight=2),
)

Key = Annotated[
    str,
    typer.Argument(
        metavar="KEY",
        autocompletion=offer_queues,
        help="A queue; or a message type, written message_type:Shop.PlaceOrder.",
    ),
]
Time = Annotated[
    str, typer.Option("--for", parser=duration, metavar="TIME", help="How long, 1s to 7d.")
]
Why = Annotated[str, typer.Option("--why", metavar="TEXT", help="The reason, for others.")]


@app.command("list", epilog="Example: retrier breakers list")
@command
def list_breakers(ctx: typer.Context, pages: Pages, service: CalledService) -> None:
    """List the breakers, those that are not closed first."""
    printer = service.printer(ctx)
    with service.open(ctx) as api:
        found = pages.fetch(api, Breaker, "breakers")
    printer.show_list(
        found,
        _show_table,
        "breaker",
        "there is no breaker: nothing was counted, and none was opened",
    )


@app.command("open", epilog='Example: retrier breakers open orders --for 2h --why "it is moved"')
@command
def open_breaker(
    ctx: typer.Context,
    key: Key,
    service: CalledService,
    time: Time = "1h",
    why: Why = "",
    user: User = "",
) -> None:
    """Stop retries to a queue for a time.

    Its messages wait; others go on, and so does what is named by id.
    """
    _set(ctx, service, (key, "open"), {"for": time, **_reason(why)}, user)


@app.command("close", epilog="Example: retrier breakers close orders")
@command
def close_breaker(
    ctx: typer.Context,
    key: Key,
    service: CalledService,
    time: Time = "",
    why: Why = "",
    user: User = "",
) -> None:
    """Let retries to a queue go again.

    It counts anew from now on. With --for it stays closed that long, whatever is counted.
    """
    lasts = {"for": time} if time else {}
    _set(ctx, service, (key, "close"), {**lasts, **_reason(why)}, user)


def _reason(why: str) -> Mapping[str, str]:
    return {"why": why} if why else {}


def _set(
    ctx: typer.Context, service: CalledService, act: tuple[str, str], content: Json, user: str
) -> None:
    key, word = act
    if not key.strip():
        raise typer.BadParameter("KEY is empty.")
    printer = service.printer(ctx)
    with service.open(ctx) as api:
        done = api.act(BreakerSet, "POST", ("breakers", key, word), content, name_user(user))
    printer.show(done, str(done.get("waits_because") or f"{key} gets its retries again"))
    if done.get("never_seen") and not service.as_json:
        printer.note(f"nothing was ever sent to {key}, and nothing has failed there")


def _show_table(printer: Printer, items: Sequence[Breaker]) -> None:
    printer.table(_COLUMNS, [_row(each) for each in items])


def _row(item: Breaker) -> tuple[object, ...]:
    since = item.get("since", item["changed_at"])
    return item["key"], item["state"], minute(since), item.get("waits_because", "")
