"""`retrier demo`: the main job in front of your eyes, with nothing to set up."""

from typing import Annotated

import typer

from retrier.cli.command import command, make_app

app = make_app("Show it.")

Port = Annotated[
    int,
    typer.Option("--port", metavar="N", min=0, max=65535, help="The API's port; 0: a free one."),
]
Once = Annotated[
    bool,
    typer.Option(
        "--once",
        help="Tell the story by itself, on a free port, and end: exit code 0 "
        "only if the ledger says that nothing is missing.",
    ),
]


@app.command(
    epilog="""
    \b
    Examples:
      retrier demo
      retrier demo --once
    """
)
@command
def demo(port: Port = 33333, *, once: Once = False) -> None:
    """Show the main job with nothing to set up.

    Broker and database are files in a temporary folder; a shop's worker fails some of its orders
    for three causes, beside this service. Without --once it waits while you look around and
    repair them.
    """
    from retrier.demo import run_demo  # noqa: PLC0415 - only this command needs the shop

    raise typer.Exit(run_demo(port=port, once=once, tell=typer.echo))
