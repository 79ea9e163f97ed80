"""`retrier find` and `retrier search`: finds messages, has declared fields of stored ones read."""

from typing import Annotated

import typer

from retrier.api.shapes.messages import FailedMessage
from retrier.api.shapes.service import Reindexed, SearchAnswer, WayFound
from retrier.cli.api_client import Json, Listing, valid_text
from retrier.cli.command import CalledService, command, make_app
from retrier.cli.errors import show_messages
from retrier.cli.printer import Column, Printer, counted
from retrier.errors import RetrierError

finding_app = make_app("Find anything.")
_NAMED = (Column(title="what"), Column(title="id"))
_FOUND = (
    Column(title="found by"),
    Column(title="conditions", flexible=True),
    Column(title="messages", number=True),
)
_PAGE = 20
"""Messages that are shown, of the surest way."""


@finding_app.command(
    epilog="""
    \b
    Examples:
      retrier find 3f2504e0
      retrier find order=4711
      retrier find A-4711 timeout
    """
)
@command
def find(
    ctx: typer.Context,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="WORDS", help="An id or its beginning, FIELD=VALUE, or words: all have to fit."
        ),
    ],
    service: CalledService,
) -> None:
    """Find by an id, by declared fields or by words; shows the newest messages that are found."""
    printer = service.printer(ctx)
    asked = " ".join(map(valid_text, words))
    messages: Listing[FailedMessage] = Listing(total=0, items=())
    with service.open(ctx) as api:
        found = api.find(SearchAnswer, "search", q=asked)
        if found["found"]:
            conditions = found["found"][0]["conditions"]
            wanted = {**conditions, "sort": "time_of_failure"}
            messages = api.first(_PAGE, FailedMessage, "errors", **wanted)
    if printer.as_json:
        printer.document({**found, "messages": {"total": messages.total, "items": messages.items}})
    else:
        _show_found(printer, found, messages)


def _show_found(printer: Printer, found: SearchAnswer, messages: Listing[FailedMessage]) -> None:
    if found["named"]:
        printer.table(_NAMED, [(each["kind"], each["id"]) for each in found["named"]])
    if found["found"]:
        printer.table(_FOUND, [_way(each) for each in found["found"]])
        printer.heading("messages")
        show_messages(printer, messages.items)
        printer.note(f"{len(messages.items):,} of {counted(messages.total, 'message')}")
    elif not found["named"]:
        printer.note("nothing is found")
    for name in found["undeclared"]:
        printer.note(f"no field is called {name}: it is looked for as it stands")
    unread = found["full_text"]["unread"] + found["full_text"]["backlog"]
    if unread:
        printer.note(f"the words of {counted(unread, 'message')} are still to be read")


def _way(found: WayFound) -> tuple[object, ...]:
    conditions = ", ".join(f"{name} {value}" for name, value in found["conditions"].items())
    count = f"{found['count']:,}"
    return found["by"], conditions, f"more than {count}" if found["more"] else count


app = make_app("What messages are found by.")


@app.callback()
def search() -> None:
    """What messages are found by."""


After = Annotated[
    int,
    typer.Option("--after", min=0, metavar="N", help="Go on behind this number, as it was told."),
]
_EVERY = 20
"""Requests between two notes."""


@app.command(
    epilog="""
    \b
    Examples:
      retrier search reindex
      retrier search reindex --after 120000
    """
)
@command
def reindex(ctx: typer.Context, service: CalledService, after: After = 0) -> None:
    """Read the declared fields of what is stored already.

    In requests of 1000 messages at most; the service goes on meanwhile. To stop it is safe: it says
    with which --after it goes on. To do it twice changes nothing.
    """
    printer = service.printer(ctx)
    read = values = asked = 0
    with service.open(ctx) as api:
        while True:
            try:
                page = api.act(Reindexed, "POST", ("search", "reindex"), {"after": after}, {})
            except (RetrierError, KeyboardInterrupt):
                _say_how_to_go_on(printer, after)
                raise
            read, values, asked = read + page["read"], values + page["values"], asked + 1
            last = page.get("after")
            if last is None:
                break
            after = last
            if asked % _EVERY == 0:
                printer.note(f"{counted(read, 'message')} read")
    done: Json = {"read": read, "values": values}
    printer.show(done, f"{counted(read, 'message')} read, {counted(values, 'value')} found")


def _say_how_to_go_on(printer: Printer, after: int) -> None:
    if after:
        printer.note(f"to go on here: retrier search reindex --after {after}")
