"""`retrier search`: has the declared fields of stored messages read."""

from typing import Annotated

import typer

from retrier.api.shapes.service import Reindexed
from retrier.cli.api_client import Json
from retrier.cli.command import CalledService, command, make_app
from retrier.cli.printer import Printer, counted
from retrier.errors import RetrierError

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
