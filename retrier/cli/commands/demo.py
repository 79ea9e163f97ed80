"""`retrier demo`: shows the main job; needs no setup."""

from typing import Annotated

import typer

from retrier.cli.command import command, make_app

app = make_app("Show the main job.")

Port = Annotated[
    int,
    typer.Option("--port", metavar="N", min=0, max=65535, help="The API's port; 0: a free one."),
]
Once = Annotated[
    bool,
    typer.Option(
        "--once",
        help="Run the whole demo without waiting, on a free port, and end: exit code 0 "
        "only if shop and service agree that no message is missing.",
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

    Broker and database are files in a temporary folder. The worker of a shop runs beside the
    service and fails some orders, for three causes. Without --once the demo waits while you look
    around and repair the causes.
    """
    from retrier.demo import run_demo  # noqa: PLC0415 - only this command needs the shop

    raise typer.Exit(run_demo(port=port, once=once, tell=typer.echo))
